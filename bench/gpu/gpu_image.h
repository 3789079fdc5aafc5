#ifndef TUTTI_BENCH_GPU_GPU_IMAGE_H_
#define TUTTI_BENCH_GPU_GPU_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "bench/gpu/suite_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// One piece of GPU memory with regions in it, as it is before an operation and
// as it must be afterwards, gaps between the regions included: so a kernel that
// writes past its end, or to its inputs, is found. Belongs to one thread.
class GpuImage {
 public:
  // A region that holds `before`, and shall hold it afterwards. It begins
  // `misalignment` bytes past a multiple of 256. Returns its number.
  int Add(std::string name, const Bytes& before, size_t misalignment);

  // What the region must hold afterwards. REQUIRES: as many bytes.
  void Expect(int region, const Bytes& after);

  // Where the region is in memory that begins at `memory`.
  std::byte* Place(int region, void* memory) const {
    return static_cast<std::byte*>(memory) + regions_[region].offset;
  }

  // Brings the image to the GPU, calls `operate` with its memory and a stream,
  // and compares. Errors: INTERNAL naming the region and the first byte that
  // differs; those of the runtime and of `operate`.
  absl::Status Run(
      SuiteMachine& machine, int gpu,
      absl::FunctionRef<absl::Status(void* memory, GpuStream)> operate) const;

 private:
  struct Region {
    std::string name;
    size_t offset = 0;
    size_t num_bytes = 0;
  };

  absl::Status Compare(const uint8_t* found) const;

  std::vector<Region> regions_;
  Bytes before_, after_;
};

// How `found` differs from `wanted`, which is as long; OK if it does not.
absl::Status CompareBytes(const std::string& name, const Bytes& wanted,
                          const uint8_t* found);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_GPU_IMAGE_H_
