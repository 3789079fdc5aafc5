#ifndef TUTTI_FRAMEWORK_BASE_BLOCK_CACHE_H_
#define TUTTI_FRAMEWORK_BASE_BLOCK_CACHE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

#include "absl/base/config.h"

namespace tutti {

// Keeps a few blocks of memory of one size for reuse. Without it, a thread that
// allocates and another that frees would often meet at a lock of the allocator
// and sleep there. Thread-safe, lock-free.
template <size_t kBlockBytes, size_t kMaxKept>
class BlockCache {
 public:
  constexpr BlockCache() = default;
  ~BlockCache() {
    for (std::atomic<void*>& slot : slots_) ::operator delete(slot.load());
  }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Returns a block, aligned as by operator new. Throws if there is no memory.
  void* Take() {
    for (std::atomic<void*>& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      void* const block = slot.exchange(nullptr, std::memory_order_acquire);
      if (block != nullptr) return block;
    }
    return ::operator new(kBlockBytes);
  }

  // Returns a block of Take() to the cache.
  void Give(void* block) {
    for (std::atomic<void*>& slot : slots_) {
      void* empty = slot.load(std::memory_order_relaxed);
      if (empty == nullptr &&
          slot.compare_exchange_strong(empty, block, std::memory_order_release,
                                       std::memory_order_relaxed)) {
        return;
      }
    }
    ::operator delete(block);
  }

 private:
  std::array<std::atomic<void*>, kMaxKept> slots_{};
};

// Standard allocator that takes single objects from the program's cache for
// this type.
template <typename T>
class CachedAllocator {
 public:
  using value_type = T;

  CachedAllocator() = default;
  template <typename U>
  CachedAllocator(const CachedAllocator<U>&) {}  // NOLINT: as in the standard.

  T* allocate(size_t count) {
    return static_cast<T*>(count == 1 ? Cache().Take()
                                      : ::operator new(count * sizeof(T)));
  }
  void deallocate(T* block, size_t count) {
    count == 1 ? Cache().Give(block) : ::operator delete(block);
  }

  friend bool operator==(const CachedAllocator&,
                         const CachedAllocator&) = default;

 private:
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  static constexpr size_t kMaxKept = 0;  // To detect use after free.
#else
  static constexpr size_t kMaxKept = 64;  // Calls under way in a small program.
#endif
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  using OfThisType = BlockCache<sizeof(T), kMaxKept>;

  // Never destroyed, because threads may outlive main().
  static OfThisType& Cache() {
    static auto& cache = *new OfThisType;
    return cache;
  }
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_BLOCK_CACHE_H_
