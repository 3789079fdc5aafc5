// Loop over the elements of a buffer, for any computation.

// Included once per Highway target, hence the unusual guard.
#if defined(TUTTI_FRAMEWORK_REDUCE_REDUCTION_LOOP_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_FRAMEWORK_REDUCE_REDUCTION_LOOP_INL_H_
#undef TUTTI_FRAMEWORK_REDUCE_REDUCTION_LOOP_INL_H_
#else
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_LOOP_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Loads and stores bytes, because memory need not be aligned to elements.
template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const uint8_t* from) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    hn::TFromD<D> element;
    std::memcpy(&element, from, sizeof(element));
    return hn::Set(d, element);
  } else {
    return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), from));
  }
}

template <class D>
HWY_INLINE void StoreBytes(D, hn::Vec<D> v, uint8_t* to) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    const hn::TFromD<D> element = hn::GetLane(v);
    std::memcpy(to, &element, sizeof(element));
  } else {
    const hn::Repartition<uint8_t, D> bytes;
    hn::StoreU(hn::BitCast(bytes, v), bytes, to);
  }
}

// Loads the elements from `elements[index]` on, as many as `d` has lanes.
template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const uint8_t* elements, size_t index) {
  return LoadBytes(d, elements + index * sizeof(hn::TFromD<D>));
}

template <class D>
HWY_INLINE void StoreElements(D d, hn::Vec<D> v, uint8_t* elements,
                              size_t index) {
  StoreBytes(d, v, elements + index * sizeof(hn::TFromD<D>));
}

// The loops below write elements [begin, end) of a result. `source(d, i)`
// returns the elements from index i on, as a vector of tag `d`; `sink(d, v, i)`
// writes it. The sink may overwrite inputs of the source, but only at the
// elements it writes.

// Writes to one buffer.
struct ToOne {
  uint8_t* into;

  template <class D>
  HWY_INLINE void operator()(D d, hn::Vec<D> v, size_t index) const {
    StoreElements(d, v, into, index);
  }
};

// WriteElements() with vectors of one size. The last vector ends at `end` and
// may overlap the one before it. It is computed first, because its inputs may
// be overwritten later. REQUIRES: end - begin >= Lanes(d).
template <class D, class Source, class Sink>
HWY_INLINE void WriteVectors(D d, const Source& source, const Sink& sink,
                             size_t begin, size_t end) {
  const size_t last = end - hn::Lanes(d);
  const auto last_vector = source(d, last);
  for (size_t i = begin; i < last; i += hn::Lanes(d)) {
    sink(d, source(d, i), i);
  }
  sink(d, last_vector, last);
}

// Uses the widest vectors that the elements fill, with as many lanes as vectors
// of LanesOf.
template <typename Stored, typename LanesOf, class Source, class Sink>
HWY_INLINE void WriteElements(const Source& source, const Sink& sink,
                              size_t begin, size_t end) {
  const hn::Rebind<Stored, hn::ScalableTag<LanesOf>> widest;
  const hn::Rebind<Stored, hn::CappedTag<LanesOf, 16 / sizeof(LanesOf)>> narrow;
  const hn::CappedTag<Stored, 1> single;
  const size_t num_elements = end - begin;
  if (num_elements >= hn::Lanes(widest)) {
    WriteVectors(widest, source, sink, begin, end);
  } else if (num_elements >= hn::Lanes(narrow)) {
    WriteVectors(narrow, source, sink, begin, end);
  } else if (num_elements > 0) {
    WriteVectors(single, source, sink, begin, end);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_LOOP_INL_H_
