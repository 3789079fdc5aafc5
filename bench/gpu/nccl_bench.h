#ifndef TUTTI_BENCH_GPU_NCCL_BENCH_H_
#define TUTTI_BENCH_GPU_NCCL_BENCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/gpu/bench_case.h"
#include "gpu/nccl/runtime/nccl_runtime.h"

namespace tutti {

// NcclReduce through the executor beside the same ncclAllReduce without Tutti,
// on a communicator that blocks and on one that does not, among the first
// `num_gpus` GPUs, in the same buffers: calls in a row, whose time ends when
// the host knows that all are done. So it has all of what a call costs, on the
// host and on the GPUs, that those before it do not hide.
std::vector<BenchCase> NcclBenches(const std::shared_ptr<NcclRuntime>& nccl,
                                   int num_gpus, const BenchScale& scale);

// What the first contender takes more than the fastest of the others: below 16
// MiB in microseconds of a call, else in per cent. The median over the rounds.
// REQUIRES: as many rounds of all.
Aim AimOverRaw(int64_t num_bytes, const std::vector<Contender>& contenders);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_NCCL_BENCH_H_
