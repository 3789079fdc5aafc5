#ifndef TUTTI_GPU_NCCL_NCCL_BLOCKS_H_
#define TUTTI_GPU_NCCL_NCCL_BLOCKS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "gpu/nccl/nccl_pass.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/implementation.h"

namespace tutti {

// Part of a buffer that moves between two ranks.
struct NcclBlock {
  std::byte* begin = nullptr;
  size_t num_elements = 0;
};

// Takes the block from `from` to `to` at `*next`, and moves `*next` past it.
// For collectives that move blocks (BlockRows()).
NcclBlock TakeBlock(const CollectiveContext& context, int from, int to,
                    std::byte** next);

// Appends the send, the receive or the copy of this member's block. Sends and
// receives skip empty blocks and blocks to the rank itself, which AppendOwn()
// copies.
void AppendSend(const CollectiveContext& context, int to,
                const NcclBlock& block, NcclPlan* plan);
void AppendRecv(const CollectiveContext& context, int from,
                const NcclBlock& block, NcclPlan* plan);
void AppendOwn(const CollectiveContext& context, const NcclBlock& from,
               const NcclBlock& to, NcclPlan* plan);

// Returns the input, or a copy of it if the output has the same memory:
// received bytes would overwrite unsent ones. Errors: as CudaDevice::Allocate.
absl::StatusOr<std::byte*> SendableInput(const CollectiveContext& context,
                                         NcclPlan* plan);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_BLOCKS_H_
