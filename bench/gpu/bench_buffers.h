#ifndef TUTTI_BENCH_GPU_BENCH_BUFFERS_H_
#define TUTTI_BENCH_GPU_BENCH_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/bench_case.h"
#include "bench/gpu/suite_group.h"
#include "bench/gpu/suite_machine.h"
#include "tutti/tensor.h"

namespace tutti {

// An all-reduce.
struct BenchShape {
  int num_members = 2;
  DType dtype = DType::kFloat32;
  int64_t num_bytes = 0;  // Of each buffer.

  int64_t num_elements() const {
    return num_bytes / static_cast<int64_t>(SizeOf(dtype));
  }
};

// "4 x 64 MiB bfloat16".
std::string ToString(const BenchShape& shape);

// The group and its buffers: inputs one after the other, outputs as well.
struct BenchBuffers {
  std::unique_ptr<SuiteGroup> group;
  Tensor all_inputs, all_outputs;
  std::vector<Tensor> inputs, outputs;  // Of the ranks.
};

// Errors: as GpuRuntime::AllocateAsync.
absl::StatusOr<BenchBuffers> MakeBuffers(SuiteMachine& machine,
                                         const BenchShape& shape);

// Those that copy all inputs to all outputs, on the first member's compute
// stream: by our kernel and by cudaMemcpyAsync. The buffers outlive them.
std::vector<Contender> CopyContenders(BenchBuffers& buffers);

// How many calls a turn has that move so many bytes each.
int CallsOf(const BenchScale& scale, int64_t num_bytes);

// The results, without what belongs to the buffers.
BenchResult ResultOf(std::vector<Contender> contenders, Aim aim,
                     int64_t num_bytes);

// `call` so many times, until it fails.
template <typename Call>
auto Repeated(Call call) {
  return [call](int num_calls) {
    absl::Status status;
    for (int i = 0; status.ok() && i < num_calls; ++i) status = call();
    return status;
  };
}

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_BENCH_BUFFERS_H_
