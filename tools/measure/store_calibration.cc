#include "tools/measure/store_calibration.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "tools/cluster/party.h"
#include "tools/measure/parallel_for.h"
#include "tools/measure/perf_row.h"
#include "tools/measure/tune_plan.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr int kNumRanks = 2;
constexpr int64_t kStepId = 1;

// Measures one size.
class StorePoint {
 public:
  static absl::StatusOr<std::unique_ptr<StorePoint>> Create(
      const Environment& environment, int64_t bytes) {
    ASSIGN_OR_RETURN(auto party,
                     LocalParty(environment)(kNumRanks, /*num_tasks=*/1));
    auto point = std::make_unique<StorePoint>(environment, std::move(party));
    CollectiveRequest request{.group_key = 1,
                              .group_size = kNumRanks,
                              .instance_key = 1,
                              .op = AllReduce{}};
    request.shape = TensorShape::Vector(bytes / (2 * kNumRanks) /
                                        static_cast<int64_t>(sizeof(float)));
    request.impl_details.implementation = "LocalReduce";
    for (int rank = 0; rank < kNumRanks; ++rank) {
      auto input = Tensor::Allocate(DType::kFloat32, request.shape);
      auto output = Tensor::Allocate(DType::kFloat32, request.shape);
      if (!input.ok()) return input.status();
      if (!output.ok()) return output.status();
      point->inputs_.push_back(*std::move(input));
      point->outputs_.push_back(*std::move(output));
    }
    point->request_ =
        std::make_shared<const CollectiveRequest>(std::move(request));
    return point;
  }

  StorePoint(const Environment& environment, std::unique_ptr<Party> party)
      : environment_(environment), party_(std::move(party)) {}

  absl::StatusOr<absl::Duration> Measure(StoreHint hint,
                                         absl::Duration deadline) {
    ForEachRank([this](size_t rank) {
      std::memset(inputs_[rank].mutable_data(), 0, inputs_[rank].size_bytes());
    });
    std::vector<CollectiveArgs> calls;
    const absl::Time begin = environment_.clock->Now();
    for (int rank = 0; rank < kNumRanks; ++rank) {
      calls.push_back({.device = party_->devices()[rank],
                       .request = request_,
                       .input = inputs_[rank],
                       .output = &outputs_[rank],
                       .store_hint = hint,
                       .deadline = begin + deadline});
    }
    RETURN_IF_ERROR(RunCalls(party_.get(), kStepId, absl::MakeSpan(calls)));
    ForEachRank([this](size_t rank) { LookAt(outputs_[rank]); });
    return environment_.clock->Now() - begin;
  }

 private:
  void ForEachRank(absl::FunctionRef<void(size_t rank)> work) {
    ParallelFor(environment_.queue, kNumRanks,
                [&](int rank) { work(static_cast<size_t>(rank)); });
  }

  void LookAt(const Tensor& tensor) {
    const auto* const words = reinterpret_cast<const uint64_t*>(tensor.data());
    uint64_t all = 0;
    for (size_t i = 0; i < tensor.size_bytes() / sizeof(uint64_t); ++i) {
      all |= words[i];
    }
    seen_.fetch_or(all, std::memory_order_relaxed);
  }

  const Environment environment_;
  const std::unique_ptr<Party> party_;
  std::shared_ptr<const CollectiveRequest> request_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::atomic<uint64_t> seen_{0};
};

absl::StatusOr<StoreTimes> MeasureSize(const Environment& environment,
                                       const StoreCalibrationOptions& options,
                                       int64_t bytes) {
  ASSIGN_OR_RETURN(const auto point, StorePoint::Create(environment, bytes));
  constexpr StoreHint kHints[] = {StoreHint::kToCaches, StoreHint::kPastCaches};
  std::vector<absl::Duration> times[2];
  for (int round = -1; round < options.rounds; ++round) {  // Round -1 warms up.
    for (size_t i = 0; i < 2; ++i) {
      ASSIGN_OR_RETURN(const auto time,
                       point->Measure(kHints[i], options.deadline));
      if (round >= 0) times[i].push_back(time);
    }
  }
  return StoreTimes{bytes, Percentile(times[0], 50), Percentile(times[1], 50)};
}

}  // namespace

absl::StatusOr<std::vector<StoreTimes>> MeasureStores(
    const Environment& environment, const StoreCalibrationOptions& options) {
  std::vector<StoreTimes> all;
  for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes *= 2) {
    ASSIGN_OR_RETURN(const auto times,
                     MeasureSize(environment, options, bytes));
    all.push_back(times);
  }
  return all;
}

int64_t PastCachesFrom(const std::vector<StoreTimes>& times) {
  int64_t from = 2 * times.back().bytes;
  for (auto size = times.rbegin(); size != times.rend(); ++size) {
    if (size->past_caches > kAsFast * size->to_caches) break;
    from = size->bytes;
  }
  return from;
}

}  // namespace tutti
