#ifndef TUTTI_TOOLS_MEASURE_PERF_BUFFERS_H_
#define TUTTI_TOOLS_MEASURE_PERF_BUFFERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/request/test_data.h"
#include "tools/request/workload.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

// One rank's tensors; unset where it has none.
struct RankBuffers {
  Tensor input;
  Tensor output;
};

// Consecutive ranks of a workload: those of one process.
struct RankRange {
  int first = 0;
  int count = 0;
};

// Of the ranks of `range`, in order; uninitialised. In place, the smaller
// tensor of a rank that has two is its block of the larger one. Errors:
// RESOURCE_EXHAUSTED.
absl::StatusOr<std::vector<RankBuffers>> AllocateBuffers(
    const Workload& workload, RankRange range, bool in_place);

struct BufferOptions {
  bool in_place = false;

  // One set that is written once and stays in the caches as it may. Else sets
  // take turns, and are rewritten past the caches before each use.
  bool hot = false;

  // Data and results are fresh in every iteration, and CountWrong() may be
  // called.
  bool check = false;

  uint64_t seed = 0;
};

// The buffers of some ranks of a workload that is executed again and again, and
// what is in them.
class PerfBuffers {
 public:
  // Errors: RESOURCE_EXHAUSTED if the buffers take more memory than is
  // available.
  static absl::Status CheckMemory(const Workload& workload, RankRange range,
                                  const BufferOptions& options);

  // `queue` outlives the object. Errors: also as CheckMemory().
  static absl::StatusOr<std::unique_ptr<PerfBuffers>> Create(
      const Workload& workload, RankRange range, const BufferOptions& options,
      WorkQueue* queue);
  PerfBuffers(const PerfBuffers&) = delete;
  PerfBuffers& operator=(const PerfBuffers&) = delete;

  const Workload& workload() const { return workload_; }

  // The buffers of the next iteration, in rank order. Inputs hold what ranks
  // bring, outputs what no collective would write.
  std::vector<RankBuffers>& Next();

  // The elements of the last Next()'s outputs that are wrong, on these ranks.
  // REQUIRES: BufferOptions::check.
  int64_t CountWrong() const;

 private:
  struct Set {
    TestData data;
    std::vector<RankBuffers> ranks;
  };

  PerfBuffers(const Workload& workload, RankRange range,
              const BufferOptions& options, WorkQueue* queue);

  void Rewrite(Set* set, TestData::Copy copy) const;

  const Workload workload_;
  const RankRange range_;
  const BufferOptions options_;
  WorkQueue* const queue_;
  std::vector<Set> sets_;
  int64_t num_iterations_ = 0;
  size_t current_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_PERF_BUFFERS_H_
