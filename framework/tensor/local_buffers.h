#ifndef TUTTI_FRAMEWORK_TENSOR_LOCAL_BUFFERS_H_
#define TUTTI_FRAMEWORK_TENSOR_LOCAL_BUFFERS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace tutti {

// Tile size for results in a temporary buffer. A tile and its operands stay in
// a first-level cache of 32 KiB.
inline constexpr int64_t kTileBytes = 8192;

// Bounds up to which nothing is allocated: members of a pass over buffers, and
// blocks of an exchange.
inline constexpr size_t kInlineMembers = 16;
inline constexpr size_t kInlineBlocks = 64;

template <typename Byte>
using Pointers = absl::InlinedVector<Byte*, kInlineMembers>;

// Pointers to the same offset in each buffer.
template <typename Byte>
Pointers<Byte> At(absl::Span<Byte* const> buffers, int64_t offset) {
  Pointers<Byte> moved(buffers.begin(), buffers.end());
  for (Byte*& pointer : moved) pointer += offset;
  return moved;
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_TENSOR_LOCAL_BUFFERS_H_
