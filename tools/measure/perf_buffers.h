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

// Tensors of one rank; unset if the rank has none.
struct RankBuffers {
  Tensor input;
  Tensor output;
};

// Consecutive ranks of a workload: the ranks of one process.
struct RankRange {
  int first = 0;
  int count = 0;
};

// Allocates the tensors of the ranks of `range`, in order, uninitialised. In
// place, a rank with two tensors has the smaller one as its block of the larger
// one. Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<std::vector<RankBuffers>> AllocateBuffers(
    const Workload& workload, RankRange range, bool in_place);

struct BufferOptions {
  bool in_place = false;

  // If true, uses one set of buffers, written once, which may stay in the
  // caches. Otherwise sets rotate, and are rewritten past the caches before
  // each use.
  bool hot = false;

  // If true, fills inputs and outputs before every iteration, and allows
  // CountWrong().
  bool check = false;

  uint64_t seed = 0;
};

// Buffers, and their contents, of some ranks of a workload that is executed
// again and again.
class PerfBuffers {
 public:
  // Errors: RESOURCE_EXHAUSTED if the buffers need more memory than is
  // available.
  static absl::Status CheckMemory(const Workload& workload, RankRange range,
                                  const BufferOptions& options);

  // `queue` outlives the object. Errors: also those of CheckMemory().
  static absl::StatusOr<std::unique_ptr<PerfBuffers>> Create(
      const Workload& workload, RankRange range, const BufferOptions& options,
      WorkQueue* queue);
  PerfBuffers(const PerfBuffers&) = delete;
  PerfBuffers& operator=(const PerfBuffers&) = delete;

  const Workload& workload() const { return workload_; }

  // Buffers of the next iteration, in rank order. Inputs hold the ranks'
  // contributions, outputs hold bytes that no collective would write.
  std::vector<RankBuffers>& Next();

  // Number of wrong elements in the outputs of the last Next(), on these ranks.
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
