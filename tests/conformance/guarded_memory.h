#ifndef TUTTI_TESTS_CONFORMANCE_GUARDED_MEMORY_H_
#define TUTTI_TESTS_CONFORMANCE_GUARDED_MEMORY_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace tutti::conformance {

// Bytes between guards that nobody may touch. Movable; the bytes stay where
// they are.
class GuardedMemory {
 public:
  // All bytes are `fill`. They begin `misalignment` bytes past a multiple of
  // kAlignment. REQUIRES: misalignment < kAlignment.
  GuardedMemory(size_t num_bytes, size_t misalignment, std::byte fill);

  absl::Span<std::byte> bytes() {
    return absl::MakeSpan(memory_).subspan(begin_, size_);
  }
  absl::Span<const std::byte> bytes() const {
    return absl::MakeConstSpan(memory_).subspan(begin_, size_);
  }

  bool GuardsAreIntact() const;

  static constexpr size_t kAlignment = 64;

 private:
  std::vector<std::byte> memory_;
  size_t begin_;
  size_t size_;
};

bool AllAre(absl::Span<const std::byte> bytes, std::byte value);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_GUARDED_MEMORY_H_
