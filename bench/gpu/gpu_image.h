#ifndef TUTTI_BENCH_GPU_GPU_IMAGE_H_
#define TUTTI_BENCH_GPU_GPU_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "bench/gpu/gpu_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Piece of GPU memory with regions in it, before and after an operation. Gaps
// between the regions belong to it, and so a kernel that writes past its end or
// to its inputs is found. Belongs to one thread.
class GpuImage {
 public:
  // Adds a region that holds `before`, and is expected to hold it afterwards.
  // The region begins `misalignment` bytes past a multiple of 256. Returns its
  // number.
  int Add(std::string name, const Bytes& before, size_t misalignment);

  // Expects the region to hold `after` afterwards. REQUIRES: as many bytes.
  void Expect(int region, const Bytes& after);

  // Address of the region in memory that begins at `memory`.
  std::byte* Place(int region, void* memory) const {
    return static_cast<std::byte*>(memory) + regions_[region].offset;
  }

  // Brings the image to the GPU, calls `operate` with its memory and a stream,
  // and compares. Throws INTERNAL naming the region and the first byte that
  // differs; errors of the runtime.
  void Run(GpuMachine& machine, int gpu,
           absl::FunctionRef<void(void* memory, GpuStream)> operate) const;

 private:
  struct Region {
    std::string name;
    size_t offset = 0;
    size_t num_bytes = 0;
  };

  std::vector<Region> regions_;
  Bytes before_, after_;
};

// Compares `bytes` with `wanted`, which is as long. Errors: INTERNAL with the
// first byte that differs.
absl::Status CompareBytes(const std::string& name, const Bytes& wanted,
                          const void* bytes);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_GPU_IMAGE_H_
