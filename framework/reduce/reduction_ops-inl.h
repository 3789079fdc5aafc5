// Operations of reductions on two vectors of lanes. Each operation is
// commutative to the bit, except for the choice between NaNs.

// Included once per Highway target, hence the unusual guard.
#if defined(TUTTI_FRAMEWORK_REDUCE_REDUCTION_OPS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_FRAMEWORK_REDUCE_REDUCTION_OPS_INL_H_
#undef TUTTI_FRAMEWORK_REDUCE_REDUCTION_OPS_INL_H_
#else
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_OPS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Add(a, b);
  }
};

// Product of bytes, modulo 256: products at even and at odd positions, each as
// the lower half of a 16-bit product.
template <class D>
HWY_INLINE hn::Vec<D> MultiplyBytes(D d, hn::Vec<D> a, hn::Vec<D> b) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::Set(d, static_cast<uint8_t>(hn::GetLane(a) * hn::GetLane(b)));
  } else {
    const hn::Repartition<uint16_t, D> dw;
    const auto wide_a = hn::BitCast(dw, a);
    const auto wide_b = hn::BitCast(dw, b);
    const auto even = hn::Mul(wide_a, wide_b);
    const auto odd =
        hn::Mul(hn::ShiftRight<8>(wide_a), hn::ShiftRight<8>(wide_b));
    return hn::BitCast(
        d, hn::Or(hn::And(even, hn::Set(dw, 0x00FF)), hn::ShiftLeft<8>(odd)));
  }
}

struct Prod {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> a, hn::Vec<D> b) const {
    if constexpr (sizeof(hn::TFromD<D>) == 1) {
      return MultiplyBytes(d, a, b);
    } else {
      return hn::Mul(a, b);
    }
  }
};

// Highway's Min and Max of floats differ among targets if an operand is a NaN
// or both are zeros. Only in these cases, the two selections below differ.
// Their Or is -0 if either zero is -0, and a NaN if either operand is a NaN.
template <class V>
HWY_INLINE V LesserFloat(V a, V b) {
  return hn::Or(hn::IfThenElse(hn::Lt(a, b), a, b),
                hn::IfThenElse(hn::Lt(b, a), b, a));
}

struct Min {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return LesserFloat(a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Max {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Neg(LesserFloat(hn::Neg(a), hn::Neg(b)));
    } else {
      return hn::Max(a, b);
    }
  }
};

struct Band {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::And(a, b);
  }
};

struct Bor {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Or(a, b);
  }
};

struct Bxor {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Xor(a, b);
  }
};

// Divides each lane of a vector by the divisor.
struct Quotient {
  int64_t divisor;

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v) const {
    return hn::Div(v, hn::Set(d, static_cast<hn::TFromD<D>>(divisor)));
  }
};

// Multiplies each lane of a vector by the factor.
struct Multiple {
  double factor;

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v) const {
    return hn::Mul(v, hn::Set(d, static_cast<hn::TFromD<D>>(factor)));
  }
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_OPS_INL_H_
