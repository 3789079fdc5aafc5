#ifndef TUTTI_GPU_TESTING_FAKE_GPU_MEMORY_H_
#define TUTTI_GPU_TESTING_FAKE_GPU_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tutti {

// Memory of the GPUs of a FakeGpuRuntime, and pinned memory.
//
// A pointer to GPU memory is an address that the processor must not touch: a
// test that does crashes. Only Access() gives the bytes, which lie elsewhere.
// Freed memory keeps its address: a late access is found.
//
// Not thread-safe.
class FakeGpuMemory {
 public:
  FakeGpuMemory() = default;
  FakeGpuMemory(const FakeGpuMemory&) = delete;
  FakeGpuMemory& operator=(const FakeGpuMemory&) = delete;

  // Reserves memory that exists from Begin() on. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<void*> Reserve(int gpu, size_t num_bytes);
  void Begin(void* memory);

  // Places the bytes at `memory` itself. The processor may touch them between
  // Begin() and End(), like a network that knows the address. Call before
  // Begin().
  void LetHostTouch(void* memory);

  // Errors: INVALID_ARGUMENT unless Reserve() returned `memory`;
  // FAILED_PRECONDITION after End(), or before Begin().
  absl::Status CheckCanEnd(const void* memory) const;
  absl::Status End(void* memory);

  void* AllocatePinned(size_t num_bytes);
  absl::Status FreePinned(void* memory);

  // Returns the place of the bytes. Errors: FAILED_PRECONDITION for bytes of a
  // GPU that do not exist now, or are not all in one block.
  absl::StatusOr<uint8_t*> Access(const void* memory, size_t num_bytes);

  // Returns the GPU that owns the bytes, or kHost.
  static constexpr int kHost = -1;
  int OwnerOf(const void* memory) const;
  bool IsPinned(const void* memory, size_t num_bytes) const;

  // Counts memory that was not freed.
  int64_t UsedBytes(int gpu) const;
  std::vector<std::string> Leaks() const;

 private:
  // Addresses that must not be accessed.
  class Addresses {
   public:
    explicit Addresses(size_t num_bytes);
    ~Addresses();
    Addresses(const Addresses&) = delete;
    Addresses& operator=(const Addresses&) = delete;
    void* begin() const { return begin_; }

    // Allows or forbids the processor's access.
    void Open(bool is_open);

   private:
    size_t num_bytes_;
    void* begin_;  // Null if the system had none left.
  };

  enum class State { kReserved, kThere, kFreed };
  struct Block {
    int gpu = 0;
    State state = State::kReserved;
    bool host_may_touch = false;
    size_t num_bytes = 0;
    std::unique_ptr<Addresses> addresses;
    std::vector<uint8_t> bytes;
  };

  static uint8_t* BytesOf(Block& block);

  // Returns the block around `memory`; null if there is none.
  const Block* Find(const void* memory) const;

  std::map<uintptr_t, Block> blocks_;
  std::map<uintptr_t, std::vector<uint8_t>> pinned_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_MEMORY_H_
