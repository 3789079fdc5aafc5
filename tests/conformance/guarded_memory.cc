#include "tests/conformance/guarded_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tutti::conformance {
namespace {

constexpr size_t kGuardBytes = 64;  // At least, on each side.
constexpr std::byte kGuard{0xA5};

}  // namespace

GuardedMemory::GuardedMemory(size_t num_bytes, size_t misalignment,
                             std::byte fill)
    : memory_(num_bytes + 2 * kGuardBytes + 2 * kAlignment, kGuard),
      begin_(kGuardBytes),
      size_(num_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data() + begin_);
  begin_ += (kAlignment - address % kAlignment) % kAlignment + misalignment;
  std::fill_n(memory_.begin() + static_cast<ptrdiff_t>(begin_), size_, fill);
}

bool GuardedMemory::GuardsAreIntact() const {
  const auto all = absl::MakeConstSpan(memory_);
  return AllAre(all.subspan(0, begin_), kGuard) &&
         AllAre(all.subspan(begin_ + size_), kGuard);
}

bool AllAre(absl::Span<const std::byte> bytes, std::byte value) {
  return bytes.empty() ||
         (bytes[0] == value &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace tutti::conformance
