#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "framework/collective/group_resources.h"
#include "schedule/engine/schedule_cache.h"
#include "schedule/engine/schedule_runner.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

absl::Status HostFunctionError(const CollectiveContext& context,
                               absl::string_view what, absl::string_view name) {
  return absl::UnimplementedError(absl::StrCat(
      context.params->instance->impl_details.implementation, " cannot run the ",
      what, " \"", name, "\", a function of the host, on ",
      context.device->full_name(),
      ": set apply_on_gpu of the op, use a built-in one, or copy the tensors "
      "to CPU devices"));
}

absl::Status CheckOps(const CollectiveContext& context) {
  const CollInstanceParams& instance = *context.params->instance;
  if (context.device->has_host_memory()) return absl::OkStatus();
  if (!instance.merge_op.runs_on_gpus()) {
    return HostFunctionError(context, "merge op", instance.merge_op.name());
  }
  if (!instance.final_op.runs_on_gpus()) {
    return HostFunctionError(context, "final op", instance.final_op.name());
  }
  return absl::OkStatus();
}

// Runs an algorithm for one member of one instance.
class ScheduledImplementation : public CollectiveImplementationInterface {
 public:
  explicit ScheduledImplementation(std::shared_ptr<const Algorithm> algorithm)
      : algorithm_(std::move(algorithm)) {}

  absl::Status InitializeCollectiveParams(
      const CollGroupParams& group, CollInstanceParams* instance) override {
    RETURN_IF_ERROR(CheckParts(algorithm_->traits));
    CollImplDetails& details = instance->impl_details;
    if (algorithm_->subdivide == nullptr || !details.subdiv_offsets.empty()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const auto input,
                     InputShape(*instance, group.size(), instance->root));
    ASSIGN_OR_RETURN(const auto output,
                     OutputShape(*instance, group.size(), instance->root));
    const int64_t num_elements =
        std::max(input.num_elements(), output.num_elements());
    details.subdiv_offsets = algorithm_->subdivide(
        {.layout = *group.layout,
         .bytes = num_elements * static_cast<int64_t>(SizeOf(instance->dtype)),
         .max_subdivs_per_device = details.max_subdivs_per_device,
         .are_launches =
             group.device_type == "GPU" && group.layout->num_tasks() == 1});
    return absl::OkStatus();
  }

  // Errors: UNIMPLEMENTED for a function of the host on device memory; errors
  // of CheckParts().
  absl::Status InitializeCollectiveContext(
      CollectiveContext* context) override {
    RETURN_IF_ERROR(CheckOps(*context));
    const bool in_place =
        OverlapOf(context->input, context->output) != Overlap::kNone;
    const ScheduleRunner* runner = Kept(in_place);
    if (runner == nullptr) {
      RETURN_IF_ERROR(CheckParts(algorithm_->traits));
      const CollectiveParams& params = *context->params;
      const auto cache = params.group->resources->GetOrCreate<ScheduleCache>();
      ASSIGN_OR_RETURN(auto schedule, cache->Get(algorithm_, params, in_place));
      runner = Keep(in_place, std::make_unique<const ScheduleRunner>(
                                  std::move(schedule), params));
    }
    context->implementation_state = runner;
    return absl::OkStatus();
  }

  void Run(const CollectiveContext& context, StatusCallback done) override {
    static_cast<const ScheduleRunner*>(context.implementation_state)
        ->Run(context, std::move(done));
  }

 private:
  // Returns null if no runner is kept yet.
  const ScheduleRunner* Kept(bool in_place) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return (in_place ? in_place_ : apart_).get();
  }

  // Keeps the runner if none is kept yet. Returns the kept runner.
  const ScheduleRunner* Keep(bool in_place,
                             std::unique_ptr<const ScheduleRunner> runner)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::unique_ptr<const ScheduleRunner>& kept = in_place ? in_place_ : apart_;
    if (kept == nullptr) kept = std::move(runner);
    return kept.get();
  }

  const std::shared_ptr<const Algorithm> algorithm_;
  Mutex mu_;
  std::unique_ptr<const ScheduleRunner> in_place_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<const ScheduleRunner> apart_ ABSL_GUARDED_BY(mu_);
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
  if (algorithm.plan == nullptr) return nullptr;
  algorithm.traits.is_made_of_steps = true;
  return std::make_shared<ScheduledFactory>(std::move(algorithm));
}

const Algorithm* AlgorithmOf(const CollectiveFactory& factory) {
  const auto* scheduled = dynamic_cast<const ScheduledFactory*>(&factory);
  return scheduled == nullptr ? nullptr : &scheduled->algorithm();
}

absl::Status CheckFitsAsPart(absl::string_view name,
                             const ImplementationTraits& traits) {
  const auto error = [name](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " cannot be a part of another one: ", why));
  };
  const DeviceNeeds& needs = traits.device_needs;
  if (!traits.device_types.empty() || !needs.library.empty() ||
      needs.own_units || needs.first_reaches_all) {
    return error("it does not run on all devices");
  }
  if (traits.needs_one_process) return error("it needs one process");
  if (traits.why_not_ops != nullptr) {
    return error("it does not reduce with all ops");
  }
  if (traits.determinism == Determinism::kNotGuaranteed) {
    return error("its results may differ from run to run");
  }
  return absl::OkStatus();
}

}  // namespace tutti
