#ifndef TUTTI_GPU_NCCL_NCCL_REDUCE_H_
#define TUTTI_GPU_NCCL_NCCL_REDUCE_H_

#include <cstdint>

#include "gpu/nccl/nccl_pass.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/tensor.h"

namespace tutti {

// True if NCCL's average over `num_ranks` has the same bits as our sum, divided
// afterwards. This holds for integers if the dtype can represent `num_ranks`.
// NCCL multiplies floating dtypes by the rounded inverse before it adds them.
bool IsAverageExact(DType dtype, int num_ranks);

// Appends a reduction with the instance's final op to `plan`: as NCCL's average
// if that is exact, else with our kernel, which then divides the output. `call`
// has op, buffers, number and peer.
void AppendReduction(const CollectiveContext& context, NcclCall call,
                     NcclPlan* plan);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_REDUCE_H_
