// Conversions between elements and the sums that a codec computes with.

// Included once per Highway target, hence the unusual guard.
#if defined(TUTTI_FRAMEWORK_REDUCE_REDUCTION_WIDEN_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_FRAMEWORK_REDUCE_REDUCTION_WIDEN_INL_H_
#undef TUTTI_FRAMEWORK_REDUCE_REDUCTION_WIDEN_INL_H_
#else
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_WIDEN_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "framework/reduce/reduction_fan_out-inl.h"
#include "framework/reduce/reduction_fold-inl.h"
#include "framework/reduce/reduction_loop-inl.h"
#include "framework/reduce/reduction_ops-inl.h"
#include "framework/tensor/small_floats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// True if a codec computes with wider numbers than it stores.
template <class Codec>
constexpr bool kWidens = sizeof(typename Codec::Sum) >
                         sizeof(typename Codec::Stored);

template <class Codec>
constexpr size_t kElementsOfLine = kLineBytes / sizeof(typename Codec::Stored);

template <class Codec>
using LineTag = hn::CappedTag<typename Codec::Stored, kElementsOfLine<Codec>>;

// Functions for whole lines of elements. Sums lie as in Sums.

template <class Codec>
HWY_INLINE void WidenLines(const uint8_t* from, uint8_t* sums,
                           size_t num_elements) {
  const LineTag<Codec> line;
  const Folded<Codec, Sum> input = {{&from, 1}};
  for (size_t i = 0; i < num_elements; i += hn::Lanes(line)) {
    input.Store(line, i, Sums{sums, 0});
  }
}

template <class Codec>
HWY_INLINE void NarrowLines(const uint8_t* from, uint8_t* into,
                            size_t num_elements) {
  const LineTag<Codec> line;
  const Sums sums = {const_cast<uint8_t*>(from), 0};  // Folded only reads it.
  const Folded<Codec, Sum> rounded = {{}, /*divisor=*/1, &sums};
  for (size_t i = 0; i < num_elements; i += hn::Lanes(line)) {
    StoreElements(line, rounded(line, i), into, i);
  }
}

// ReductionKernels::widen and narrow. The last line may be filled in part.

template <class Codec>
size_t WidenElements(const uint8_t* from, uint8_t* sums, size_t num_elements) {
  constexpr size_t kLine = kElementsOfLine<Codec>;
  const size_t rest = num_elements % kLine;
  const size_t whole = num_elements - rest;
  WidenLines<Codec>(from, sums, whole);
  if (rest == 0) return whole;
  alignas(kLineBytes) uint8_t last[kLineBytes] = {};
  std::memcpy(last, from + whole * sizeof(typename Codec::Stored),
              rest * sizeof(typename Codec::Stored));
  WidenLines<Codec>(last, sums + whole * sizeof(typename Codec::Sum), kLine);
  return whole + kLine;
}

template <class Codec>
void NarrowElements(const uint8_t* sums, uint8_t* into, size_t num_elements) {
  constexpr size_t kLine = kElementsOfLine<Codec>;
  const size_t rest = num_elements % kLine;
  const size_t whole = num_elements - rest;
  NarrowLines<Codec>(sums, into, whole);
  if (rest == 0) return;
  alignas(kLineBytes) uint8_t last[kLineBytes];
  NarrowLines<Codec>(sums + whole * sizeof(typename Codec::Sum), last, kLine);
  std::memcpy(into + whole * sizeof(typename Codec::Stored), last,
              rest * sizeof(typename Codec::Stored));
}

// The same for floats of 8 bits, one by one.

template <typename Element>
size_t WidenOneByOne(const uint8_t* from, uint8_t* sums, size_t num_elements) {
  for (size_t i = 0; i < num_elements; ++i) {
    const float value = Decode(Element{from[i]});
    std::memcpy(sums + i * sizeof(value), &value, sizeof(value));
  }
  return num_elements;
}

template <typename Element>
void NarrowOneByOne(const uint8_t* sums, uint8_t* into, size_t num_elements) {
  for (size_t i = 0; i < num_elements; ++i) {
    float value = 0;
    std::memcpy(&value, sums + i * sizeof(value), sizeof(value));
    into[i] = Encode<Element>(value).code;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_WIDEN_INL_H_
