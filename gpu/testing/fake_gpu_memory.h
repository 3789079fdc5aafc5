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

// The memory of the GPUs of a FakeGpuRuntime, and pinned memory.
//
// A pointer to GPU memory is an address that the processor must not touch: a
// test that does ends there. The bytes lie elsewhere, where only Access()
// leads. Memory that is freed keeps its address, so that a late access is
// found.
//
// Not thread-safe.
class FakeGpuMemory {
 public:
  FakeGpuMemory() = default;
  FakeGpuMemory(const FakeGpuMemory&) = delete;
  FakeGpuMemory& operator=(const FakeGpuMemory&) = delete;

  // Memory that is not there before Begin(). Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<void*> Reserve(int gpu, size_t num_bytes);
  void Begin(void* memory);

  // The bytes will lie where `memory` points: the processor may touch them
  // between Begin() and End(), as a network would that is told the address.
  // Before Begin().
  void LetHostTouch(void* memory);

  // Errors: INVALID_ARGUMENT unless Reserve() returned it; FAILED_PRECONDITION
  // if End() was called for it, or Begin() was not.
  absl::Status CheckCanEnd(const void* memory) const;
  absl::Status End(void* memory);

  void* AllocatePinned(size_t num_bytes);
  absl::Status FreePinned(void* memory);

  // Where the bytes are. Errors: FAILED_PRECONDITION for bytes of a GPU that
  // are not there yet or any more, or not all in one piece of memory.
  absl::StatusOr<uint8_t*> Access(const void* memory, size_t num_bytes);

  // The GPU that the bytes are of, or kHost.
  static constexpr int kHost = -1;
  int OwnerOf(const void* memory) const;
  bool IsPinned(const void* memory, size_t num_bytes) const;

  // Of all that was not freed.
  int64_t UsedBytes(int gpu) const;
  std::vector<std::string> Leaks() const;

 private:
  // Addresses that no access is allowed to.
  class Addresses {
   public:
    explicit Addresses(size_t num_bytes);
    ~Addresses();
    Addresses(const Addresses&) = delete;
    Addresses& operator=(const Addresses&) = delete;
    void* begin() const { return begin_; }

    // Whether the processor may touch what is there.
    void Open(bool is_open);

   private:
    size_t num_bytes_;
    void* begin_;  // Null if there were none.
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

  // By their first addresses. Null if there is none around `memory`.
  const Block* Find(const void* memory) const;

  std::map<uintptr_t, Block> blocks_;
  std::map<uintptr_t, std::vector<uint8_t>> pinned_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_MEMORY_H_
