#ifndef TUTTI_GPU_NCCL_NCCL_BLOCKS_H_
#define TUTTI_GPU_NCCL_NCCL_BLOCKS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "gpu/nccl/nccl_pass.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/implementation.h"

namespace tutti {

// The part of a buffer that goes from one rank to another.
struct NcclBlock {
  std::byte* begin = nullptr;
  size_t num_elements = 0;
};

// What `from` has for `to`, at the start of `*next`, which is moved past it.
// For collectives that move blocks (BlockRows()).
NcclBlock TakeBlock(const CollectiveContext& context, int from, int to,
                    std::byte** next);

// Sends and receives `block` of this member to and from a rank. Nothing for a
// block without elements, or to itself: that is a copy.
void AppendSend(const CollectiveContext& context, int to,
                const NcclBlock& block, NcclPlan* plan);
void AppendRecv(const CollectiveContext& context, int from,
                const NcclBlock& block, NcclPlan* plan);
void AppendOwn(const CollectiveContext& context, const NcclBlock& from,
               const NcclBlock& to, NcclPlan* plan);

// The input; a copy of it where the output is the same memory, because what is
// received would be written over what is still to be sent. Errors: as
// CudaDevice::Allocate.
absl::StatusOr<std::byte*> SendableInput(const CollectiveContext& context,
                                         NcclPlan* plan);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_BLOCKS_H_
