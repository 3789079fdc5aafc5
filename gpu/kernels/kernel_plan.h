#ifndef TUTTI_GPU_KERNELS_KERNEL_PLAN_H_
#define TUTTI_GPU_KERNELS_KERNEL_PLAN_H_

#include <cstddef>

#include "gpu/kernels/gpu_reduction.h"
#include "gpu/kernels/kernel_arguments.h"

// From what is wanted to what kernels are launched with.

namespace tutti::gpu {

// In packs where all buffers lie alike to kPackBytes and to their elements,
// else one by one. REQUIRES: CheckReduction(reduction) is OK.
ReduceArguments PlanReduce(const GpuReduction& reduction);

// In the widest words, of 16, 4 or 1 bytes, to which all buffers lie alike.
// REQUIRES: CheckCopy(copy) is OK.
CopyArguments PlanCopy(const GpuCopy& copy);

// How many blocks of a kernel a GPU runs at a time; at least one, so that it
// runs at all.
int MostBlocks(int num_multiprocessors, int blocks_per_multiprocessor);

// How many blocks of kThreadsPerBlock: one thread for each item, but no more
// than `most`, those that the GPU runs at a time, and at least one.
unsigned NumBlocks(size_t num_items, int most);

// How many items the threads share.
size_t NumItems(const ReduceArguments& arguments, size_t pack_elements);
size_t NumItems(const CopyArguments& arguments);

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_KERNEL_PLAN_H_
