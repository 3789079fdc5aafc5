#ifndef TUTTI_GPU_NCCL_NCCL_REDUCE_H_
#define TUTTI_GPU_NCCL_NCCL_REDUCE_H_

#include "tutti/tensor.h"

namespace tutti {

// True if NCCL's average over `num_ranks` has the same bits as our sum, divided
// afterwards. This holds for integers if the dtype can represent `num_ranks`.
// NCCL multiplies floating dtypes by the rounded inverse before it adds them.
bool IsAverageExact(DType dtype, int num_ranks);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_REDUCE_H_
