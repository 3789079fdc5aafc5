// Loop that writes one result to many buffers.

// Included once per Highway target, hence the unusual guard.
#if defined(TUTTI_FRAMEWORK_REDUCE_REDUCTION_FAN_OUT_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_FRAMEWORK_REDUCE_REDUCTION_FAN_OUT_INL_H_
#undef TUTTI_FRAMEWORK_REDUCE_REDUCTION_FAN_OUT_INL_H_
#else
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_FAN_OUT_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "framework/reduce/reduction_kernels.h"
#include "framework/reduce/reduction_loop-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Unit of transfer of the memory system. Stores past the caches cost several
// times as much if they do not fill a line without interruption.
constexpr size_t kLineBytes = 64;

// Writes to all buffers of a fold through the caches.
struct ToAll {
  const FoldArguments& arguments;

  template <class D>
  HWY_INLINE void operator()(D d, hn::Vec<D> v, size_t index) const {
    for (uint8_t* output : arguments.outputs) {
      StoreElements(d, v, output, index);
    }
    for (uint8_t* output : arguments.streamed) {
      StoreElements(d, v, output, index);
    }
  }
};

// Bytes from `p` to the next line.
HWY_INLINE size_t BytesToLine(const uint8_t* p) {
  return (kLineBytes - reinterpret_cast<uintptr_t>(p) % kLineBytes) %
         kLineBytes;
}

// Number of elements before the first line of all streamed buffers.
// `num_elements` if their lines do not begin at the same elements.
template <typename Stored>
HWY_INLINE size_t ElementsBeforeLines(const FoldArguments& arguments) {
  const size_t bytes = BytesToLine(arguments.streamed[0]);
  for (const uint8_t* output : arguments.streamed) {
    if (BytesToLine(output) != bytes) return arguments.num_elements;
  }
  if (bytes % sizeof(Stored) != 0) return arguments.num_elements;
  return std::min(bytes / sizeof(Stored), arguments.num_elements);
}

// Writes the line that begins at element `index`.
template <class D, class Source>
HWY_INLINE void WriteLine(D d, const Source& source,
                          const FoldArguments& arguments, size_t index) {
  using Stored = hn::TFromD<D>;
  alignas(kLineBytes) uint8_t line[kLineBytes];
  for (size_t i = 0; i < kLineBytes / sizeof(Stored); i += hn::Lanes(d)) {
    StoreElements(d, source(d, index + i), line, i);
  }
  const hn::CappedTag<uint8_t, kLineBytes> bytes;
  const size_t offset = index * sizeof(Stored);
  for (uint8_t* output : arguments.outputs) {
    std::memcpy(output + offset, line, kLineBytes);
  }
  for (uint8_t* output : arguments.streamed) {
    for (size_t i = 0; i < kLineBytes; i += hn::Lanes(bytes)) {
      hn::Stream(hn::Load(bytes, line + i), bytes, output + offset + i);
    }
  }
}

// Writes `source` (see reduction_loop-inl.h) to all buffers.
template <class Codec, class Source>
HWY_INLINE void WriteToAll(const Source& source,
                           const FoldArguments& arguments) {
  using Stored = typename Codec::Stored;
  // At most as wide as a line.
  const hn::CappedTag<Stored, kLineBytes / sizeof(Stored)> line;
  const ToAll to_all{arguments};
  const size_t size = arguments.num_elements;
  const size_t line_elements = kLineBytes / sizeof(Stored);
  size_t i = 0;
  if (!arguments.streamed.empty()) {
    const size_t begin = ElementsBeforeLines<Stored>(arguments);
    WriteElements<Stored, Stored>(source, to_all, 0, begin);
    for (i = begin; i + line_elements <= size; i += line_elements) {
      WriteLine(line, source, arguments, i);
    }
    hwy::FlushStream();
  }
  WriteElements<Stored, Stored>(source, to_all, i, size);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_FAN_OUT_INL_H_
