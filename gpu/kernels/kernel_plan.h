#ifndef TUTTI_GPU_KERNELS_KERNEL_PLAN_H_
#define TUTTI_GPU_KERNELS_KERNEL_PLAN_H_

#include <cstddef>

#include "gpu/kernels/gpu_reduction.h"
#include "gpu/kernels/kernel_arguments.h"

// Computes launch arguments from reductions and copies.

namespace tutti::gpu {

// Plans packs if all buffers have the same offset to a multiple of kPackBytes
// and are aligned to their elements. Otherwise plans single elements. REQUIRES:
// CheckReduction(reduction) is OK.
ReduceArguments PlanReduce(const GpuReduction& reduction);

// Plans the widest words, of 16, 4 or 1 bytes, to which all buffers have the
// same offset. REQUIRES: CheckCopy(copy) is OK.
CopyArguments PlanCopy(const GpuCopy& copy);

// Number of blocks of a kernel that a GPU runs at a time; at least 1.
int MostBlocks(int num_multiprocessors, int blocks_per_multiprocessor);

// Number of blocks of kThreadsPerBlock to launch: a thread per item, at least 1
// block and at most `most`, the number that the GPU runs at a time.
unsigned NumBlocks(size_t num_items, int most);

// Number of items that the threads share.
size_t NumItems(const ReduceArguments& arguments, size_t pack_elements);
size_t NumItems(const CopyArguments& arguments);

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_KERNEL_PLAN_H_
