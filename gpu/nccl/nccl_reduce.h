#ifndef TUTTI_GPU_NCCL_NCCL_REDUCE_H_
#define TUTTI_GPU_NCCL_NCCL_REDUCE_H_

#include <cstdint>

#include "gpu/nccl/nccl_pass.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/tensor.h"

namespace tutti {

// Whether NCCL's average of so many ranks has the bits of our sum that is then
// divided: of integers, where the dtype holds the divisor. Floating dtypes are
// multiplied by the rounded inverse before they are added.
bool IsAverageExact(DType dtype, int num_ranks);

// Appends a reduction to `plan`, with the final op of the instance: as NCCL's
// average where that is exact, else by a kernel of ours that divides the output
// afterwards. `call` has op, buffers, number and peer.
void AppendReduction(const CollectiveContext& context, NcclCall call,
                     NcclPlan* plan);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_REDUCE_H_
