#include "schedule/algorithm.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/collective_implementation.h"
#include "framework/collective_shapes.h"
#include "framework/mutex.h"
#include "schedule/chunk_map.h"
#include "schedule/schedule_cache.h"
#include "schedule/schedule_run.h"

namespace tutti {
namespace {

// Runs an algorithm for one member of one instance.
class ScheduledImplementation : public CollectiveImplementationInterface {
 public:
  explicit ScheduledImplementation(std::shared_ptr<const Algorithm> algorithm)
      : algorithm_(std::move(algorithm)) {}

  absl::Status InitializeCollectiveParams(
      const CollGroupParams& group, CollInstanceParams* instance) override {
    CollImplDetails& details = instance->impl_details;
    if (algorithm_->subdivide == nullptr || !details.subdiv_offsets.empty()) {
      return absl::OkStatus();
    }
    const auto input = InputShape(*instance, group.size(), instance->root);
    if (!input.ok()) return input.status();
    const auto output = OutputShape(*instance, group.size(), instance->root);
    if (!output.ok()) return output.status();
    const int64_t num_elements =
        std::max(input->num_elements(), output->num_elements());
    details.subdiv_offsets = algorithm_->subdivide(
        {.layout = *group.layout,
         .bytes = num_elements * static_cast<int64_t>(SizeOf(instance->dtype)),
         .max_subdivs_per_device = details.max_subdivs_per_device});
    return absl::OkStatus();
  }

  absl::Status InitializeCollectiveContext(
      const CollectiveContext& context) override {
    MutexLock lock(&mu_);
    auto& bound = BoundFor(context);
    if (bound.has_value()) return absl::OkStatus();
    const CollectiveParams& params = *context.params;
    const auto chunks = std::make_shared<const ChunkMap>(params);
    const auto schedule =
        params.group->resources->GetOrCreate<ScheduleCache>()->Get(
            algorithm_, params, *chunks, IsInPlace(context));
    if (!schedule.ok()) return schedule.status();
    const bool is_barrier = params.instance->type == CollectiveType::kBarrier;
    bound = Bind(*schedule, chunks,
                 is_barrier ? 1 : SizeOf(params.instance->dtype));
    return absl::OkStatus();
  }

  void Run(const CollectiveContext& context, StatusCallback done) override {
    const BoundSchedule* bound = nullptr;
    {
      MutexLock lock(&mu_);
      bound = &*BoundFor(context);  // Set for good.
    }
    RunSchedule(*bound, context, std::move(done));
  }

 private:
  static bool IsInPlace(const CollectiveContext& context) {
    return context.input.is_set() && context.output.is_set() &&
           OverlapOf(context.input, context.output) != Overlap::kNone;
  }

  std::optional<BoundSchedule>& BoundFor(const CollectiveContext& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return IsInPlace(context) ? in_place_ : apart_;
  }

  const std::shared_ptr<const Algorithm> algorithm_;
  Mutex mu_;
  std::optional<BoundSchedule> in_place_ ABSL_GUARDED_BY(mu_);
  std::optional<BoundSchedule> apart_ ABSL_GUARDED_BY(mu_);
};

class ScheduledFactory : public CollectiveFactory {
 public:
  explicit ScheduledFactory(Algorithm algorithm)
      : CollectiveFactory(algorithm.traits),
        algorithm_(std::make_shared<const Algorithm>(std::move(algorithm))) {}

  const Algorithm& algorithm() const { return *algorithm_; }

  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return std::make_unique<ScheduledImplementation>(algorithm_);
  }

 private:
  const std::shared_ptr<const Algorithm> algorithm_;
};

}  // namespace

std::shared_ptr<const CollectiveFactory> Scheduled(Algorithm algorithm) {
  return std::make_shared<ScheduledFactory>(std::move(algorithm));
}

const Algorithm* AlgorithmOf(const CollectiveFactory& factory) {
  const auto* scheduled = dynamic_cast<const ScheduledFactory*>(&factory);
  return scheduled == nullptr ? nullptr : &scheduled->algorithm();
}

}  // namespace tutti
