#ifndef TUTTI_BENCH_GPU_HOST_AREA_H_
#define TUTTI_BENCH_GPU_HOST_AREA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Pinned memory of the host through which checks write and read that of GPUs:
// no copy waits for the processor, and none makes the caller wait. Taken piece
// by piece, given back all at once. Belongs to one thread; the runtime outlives
// it.
class HostArea {
 public:
  // Asks the runtime for `block_bytes` at a time, or for more where one piece
  // needs that.
  HostArea(GpuRuntime& runtime, size_t block_bytes)
      : runtime_(runtime), block_bytes_(block_bytes) {}

  // Valid until Clear(). Errors: as GpuRuntime::AllocatePinned.
  absl::StatusOr<uint8_t*> Take(size_t num_bytes);

  // What was taken is taken again from now on. No stream uses it any more.
  void Clear();

 private:
  struct Block {
    OwnedPinnedMemory memory;
    size_t num_bytes = 0;
  };

  GpuRuntime& runtime_;
  const size_t block_bytes_;
  std::vector<Block> blocks_;
  size_t block_ = 0;  // That pieces are taken of.
  size_t taken_ = 0;  // Of that one.
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_HOST_AREA_H_
