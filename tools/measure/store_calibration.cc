#include "tools/measure/store_calibration.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "framework/base/status_macros.h"
#include "tools/cluster/party.h"
#include "tools/measure/parallel_for.h"
#include "tools/measure/perf_buffers.h"
#include "tools/measure/perf_plan.h"
#include "tools/measure/tune_plan.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr int kNumRanks = 2;

// Reads all words of the tensor, and returns bits of them.
uint64_t LookAt(const Tensor& tensor) {
  const auto* const words = reinterpret_cast<const uint64_t*>(tensor.data());
  return std::accumulate(words, words + tensor.size_bytes() / sizeof(uint64_t),
                         uint64_t{0}, std::bit_or<>());
}

absl::StatusOr<StoreTimes> MeasureSize(const Environment& environment,
                                       const StoreCalibrationOptions& options,
                                       int64_t bytes) {
  ASSIGN_OR_RETURN(const auto party,
                   LocalParty(environment)(kNumRanks, /*num_tasks=*/1));
  const Workload workload = {
      .group_size = kNumRanks,
      .count = bytes / (2 * kNumRanks) / static_cast<int64_t>(sizeof(float))};
  ASSIGN_OR_RETURN(auto ranks, AllocateBuffers(workload, {0, kNumRanks},
                                               /*in_place=*/false));
  std::vector<CollectiveArgs> calls(kNumRanks);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    CollectiveRequest request = RequestOf(workload, rank);
    request.impl_details.implementation = "LocalReduce";
    calls[rank].request =
        std::make_shared<const CollectiveRequest>(std::move(request));
    calls[rank].input = ranks[rank].input;
    calls[rank].output = &ranks[rank].output;
  }
  std::atomic<uint64_t> seen = 0;
  std::vector<absl::Duration> times[2];
  for (int round = -1; round < options.rounds; ++round) {  // Round -1 warms up.
    for (const bool past : {false, true}) {
      ParallelFor(environment.queue, kNumRanks, [&](int rank) {
        Tensor& input = ranks[rank].input;
        std::memset(input.mutable_data(), 0, input.size_bytes());
      });
      const absl::Time begin = environment.clock->Now();
      for (CollectiveArgs& call : calls) {
        call.store_hint = past ? StoreHint::kPastCaches : StoreHint::kToCaches;
        call.deadline = begin + options.deadline;
      }
      RETURN_IF_ERROR(
          RunCalls(party.get(), environment.clock, /*step_id=*/1, calls)
              .status());
      ParallelFor(environment.queue, kNumRanks,
                  [&](int rank) { seen |= LookAt(ranks[rank].output); });
      if (round < 0) continue;
      times[past ? 1 : 0].push_back(environment.clock->Now() - begin);
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
