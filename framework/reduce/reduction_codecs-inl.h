// Codecs: the arithmetic on the elements of each dtype.
//
// A codec has, for one dtype,
//  - Stored: type in memory;
//  - LanesOf: the best vectors of Stored have as many lanes as vectors of it;
//  - Sum: type of the arithmetic;
//  - Compute(d, f): returns a vector of Stored with tag `d`, computed by f;
//  - kInHalves<D>: true if such a vector is computed as two vectors of Sum,
//    with tag LanesOfHalf(d). Then Low(d, from, i) and High(d, from, i) each
//    load half of the elements from `from[i]` on, and Encode(d, low, high)
//    returns the vector of Stored. Else Visit(d, f) calls f as Compute does.
//
// `f(lane_tag, decode)` returns a vector of Sum; `decode(v)` makes such a
// vector from one of Stored. f may be called several times, each for some of
// the elements. Only f's result is rounded to the dtype: once, to nearest even.
// Every NaN gets the same bits. So results do not depend on the CPU.

// Included once per Highway target, hence the unusual guard.
#if defined(TUTTI_FRAMEWORK_REDUCE_REDUCTION_CODECS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_FRAMEWORK_REDUCE_REDUCTION_CODECS_INL_H_
#undef TUTTI_FRAMEWORK_REDUCE_REDUCTION_CODECS_INL_H_
#else
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_CODECS_INL_H_
#endif

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/reduce/reduction_loop-inl.h"
#include "framework/tensor/small_floats.h"
#include "hwy/highway.h"
#include "tutti/tensor.h"

// 1 if the target's conversions between float16 and float32 round to nearest
// even and keep denormals, infinities and NaNs. Highway's emulated conversions
// do not.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || \
    HWY_TARGET == HWY_AVX3_DL ||                        \
    (HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
#define TUTTI_NATIVE_FLOAT16 1
#else
#define TUTTI_NATIVE_FLOAT16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Returns `v` with sign 0, the quiet bit and no payload in every NaN.
template <class D>
HWY_INLINE hn::Vec<D> CanonicalNaN(D d, hn::Vec<D> v) {
  const auto nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

// Identity, for types that are computed as they are stored.
struct Unchanged {
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return v;
  }
};

template <typename T>
struct IntegerCodec {
  using Stored = T;
  using LanesOf = T;
  using Sum = T;
  template <class D>
  static constexpr bool kInHalves = false;

  template <class D, class F>
  static HWY_INLINE void Visit(D d, const F& f) {
    f(d, Unchanged());
  }

  template <class D, class F>
  static HWY_INLINE hn::Vec<D> Compute(D d, const F& f) {
    return f(d, Unchanged());
  }
};

// Computes with 0 and 1, whatever bytes stand for true.
struct BoolCodec {
  using Stored = uint8_t;
  using LanesOf = uint8_t;
  using Sum = uint8_t;
  template <class D>
  static constexpr bool kInHalves = false;

  struct ZeroOrOne {
    template <class V>
    HWY_INLINE V operator()(V v) const {
      return hn::Min(v, hn::Set(hn::DFromV<V>(), uint8_t{1}));
    }
  };

  template <class D, class F>
  static HWY_INLINE void Visit(D d, const F& f) {
    f(d, ZeroOrOne());
  }

  template <class D, class F>
  static HWY_INLINE hn::Vec<D> Compute(D d, const F& f) {
    return f(d, ZeroOrOne());
  }
};

template <typename T>
struct FloatCodec {
  using Stored = T;
  using LanesOf = T;
  using Sum = T;
  template <class D>
  static constexpr bool kInHalves = false;

  template <class D, class F>
  static HWY_INLINE void Visit(D d, const F& f) {
    f(d, Unchanged());
  }

  template <class D, class F>
  static HWY_INLINE hn::Vec<D> Compute(D d, const F& f) {
    return CanonicalNaN(d, f(d, Unchanged()));
  }
};

// Sums of complex numbers are sums of their parts; products have separate
// loops.
template <typename T>
struct ComplexCodec {
  using PartCodec = FloatCodec<T>;
};

// A bfloat16 is the upper half of a float, so a vector of bfloat16 contains two
// vectors of floats. Elements at odd positions need only their lower halves
// cleared; those at even positions need a shift. No element crosses lanes.
struct BFloat16Codec {
  using Stored = uint16_t;
  using LanesOf = uint16_t;
  using Sum = float;
  template <class D>
  static constexpr bool kInHalves = hn::MaxLanes(D()) > 1;

  // Low: elements at even positions. High: elements at odd positions.
  template <class D>
  static HWY_INLINE hn::Repartition<float, D> LanesOfHalf(D) {
    return {};
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Repartition<float, D>> Low(D d,
                                                           const uint8_t* from,
                                                           size_t index) {
    return FromEven<hn::Repartition<float, D>>()(LoadElements(d, from, index));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Repartition<float, D>> High(D d,
                                                            const uint8_t* from,
                                                            size_t index) {
    return FromOdd<hn::Repartition<float, D>>()(LoadElements(d, from, index));
  }
  template <class D, class V>
  static HWY_INLINE hn::Vec<D> Encode(D d, V low, V high) {
    const hn::Repartition<float, D> df;
    return hn::OddEven(hn::BitCast(d, Round(df, high)),
                       hn::BitCast(d, hn::ShiftRight<16>(Round(df, low))));
  }

  template <class D, class F>
  static HWY_INLINE void Visit(D, const F& f) {
    const hn::Rebind<float, D> df;
    f(df, FromOne<decltype(df)>());
  }

  template <class D, class F>
  static HWY_INLINE hn::Vec<D> Compute(D d, const F& f) {
    if constexpr (hn::MaxLanes(D()) == 1) {
      const hn::Rebind<float, D> df;
      const auto code = Round(df, f(df, FromOne<decltype(df)>()));
      return hn::Set(d, static_cast<uint16_t>(hn::GetLane(code) >> 16));
    } else {
      const hn::Repartition<float, D> df;
      const auto even = Round(df, f(df, FromEven<decltype(df)>()));
      const auto odd = Round(df, f(df, FromOdd<decltype(df)>()));
      return hn::OddEven(hn::BitCast(d, odd),
                         hn::BitCast(d, hn::ShiftRight<16>(even)));
    }
  }

 private:
  template <class DF>
  struct FromOne {
    template <class V>
    HWY_INLINE hn::Vec<DF> operator()(V code) const {
      const hn::RebindToUnsigned<DF> du;
      return hn::BitCast(DF(), hn::Set(du, uint32_t{hn::GetLane(code)} << 16));
    }
  };
  template <class DF>
  struct FromEven {
    template <class V>
    HWY_INLINE hn::Vec<DF> operator()(V codes) const {
      const hn::RebindToUnsigned<DF> du;
      return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::BitCast(du, codes)));
    }
  };
  template <class DF>
  struct FromOdd {
    template <class V>
    HWY_INLINE hn::Vec<DF> operator()(V codes) const {
      const hn::RebindToUnsigned<DF> du;
      return hn::BitCast(
          DF(), hn::And(hn::BitCast(du, codes), hn::Set(du, 0xFFFF0000)));
    }
  };

  // Returns the codes in the upper halves of the lanes. Written by hand,
  // because Highway's conversion truncates. The addition could turn some NaNs
  // into infinity or -0, but not the canonical NaN.
  template <class DF>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<DF>> Round(DF df,
                                                            hn::Vec<DF> v) {
    const hn::RebindToUnsigned<DF> du;
    const auto bits = hn::BitCast(du, CanonicalNaN(df, v));
    const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    return hn::Add(bits, hn::Add(is_odd, hn::Set(du, 0x7FFF)));
  }
};

// Vector of float16 codes that corresponds to a vector of floats.
template <class DF>
using Codes = hn::Vec<hn::Rebind<uint16_t, DF>>;

#if TUTTI_NATIVE_FLOAT16

template <class DF>
HWY_INLINE hn::Vec<DF> DecodeFloat16(DF df, Codes<DF> codes) {
  const hn::Rebind<hwy::float16_t, DF> df16;
  return hn::PromoteTo(df, hn::BitCast(df16, codes));
}

// REQUIRES: NaNs are canonical.
template <class DF>
HWY_INLINE Codes<DF> EncodeFloat16(DF df, hn::Vec<DF> v) {
  const hn::Rebind<hwy::float16_t, DF> df16;
  const hn::Rebind<uint16_t, DF> du16;
  (void)df;
  return hn::BitCast(du16, hn::DemoteTo(df16, v));
}

#else

// Integer arithmetic: the bits of magnitudes compare in the same way as the
// magnitudes.
constexpr int32_t kFloat16Rebias = (127 - 15) << 23;
constexpr int32_t kFloat16FirstNormal = 1 << 23;  // Before the rebias.
constexpr int32_t kFloat16Infinity = 31 << 23;
constexpr int32_t kFloat32Infinity = 255 << 23;

template <class DF>
HWY_INLINE hn::Vec<DF> DecodeFloat16(DF df, Codes<DF> codes) {
  const hn::RebindToSigned<DF> di;
  const auto wide = hn::PromoteTo(di, codes);
  const auto magnitude = hn::And(wide, hn::Set(di, 0x7FFF));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(wide, magnitude));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(shifted, hn::Set(di, kFloat16Rebias));
  const auto special = hn::Add(normal, hn::Set(di, kFloat16Rebias));
  // A denormal lacks the implicit bit: add it, then subtract it.
  const auto implicit = hn::Set(di, kFloat16Rebias + kFloat16FirstNormal);
  const auto denormal =
      hn::BitCast(di, hn::Sub(hn::BitCast(df, hn::Add(shifted, implicit)),
                              hn::BitCast(df, implicit)));
  const auto is_denormal = hn::Lt(shifted, hn::Set(di, kFloat16FirstNormal));
  const auto is_finite = hn::Lt(shifted, hn::Set(di, kFloat16Infinity));
  const auto value = hn::IfThenElse(is_denormal, denormal,
                                    hn::IfThenElse(is_finite, normal, special));
  return hn::BitCast(df, hn::Or(sign, value));
}

// A mantissa that rounds up past its last bit carries into the exponent. The
// result is correct, even at infinity.
template <class DI>
HWY_INLINE hn::Vec<DI> EncodeNormalFloat16(DI di, hn::Vec<DI> magnitude) {
  const auto is_odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
  const auto rounding = hn::Add(is_odd, hn::Set(di, 0xFFF - kFloat16Rebias));
  return hn::ShiftRight<13>(hn::Add(magnitude, rounding));
}

// Floats next to 0.5 have the spacing of denormal float16s, so adding 0.5
// rounds to a denormal float16.
template <class DI>
HWY_INLINE hn::Vec<DI> EncodeDenormalFloat16(DI di, hn::Vec<DI> magnitude) {
  const hn::RebindToFloat<DI> df;
  const auto half = hn::Set(df, 0.5f);
  const auto sum = hn::Add(hn::BitCast(df, magnitude), half);
  return hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, half));
}

// REQUIRES: NaNs are canonical.
template <class DF>
HWY_INLINE Codes<DF> EncodeFloat16(DF df, hn::Vec<DF> v) {
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> du16;
  (void)df;
  const auto bits = hn::BitCast(di, v);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
  const auto is_denormal =
      hn::Lt(magnitude, hn::Set(di, kFloat16Rebias + kFloat16FirstNormal));
  const auto is_finite =
      hn::Lt(magnitude, hn::Set(di, kFloat16Rebias + kFloat16Infinity));
  const auto is_nan = hn::Gt(magnitude, hn::Set(di, kFloat32Infinity));
  const auto finite =
      hn::IfThenElse(is_denormal, EncodeDenormalFloat16(di, magnitude),
                     EncodeNormalFloat16(di, magnitude));
  const auto special =
      hn::IfThenElse(is_nan, hn::Set(di, 0x7E00), hn::Set(di, 0x7C00));
  const auto code = hn::IfThenElse(is_finite, finite, special);
  return hn::DemoteTo(du16, hn::Or(sign, code));
}

#endif  // TUTTI_NATIVE_FLOAT16

// Joins two halves into one vector. A target without vectors has no halves.
#if HWY_TARGET == HWY_SCALAR
template <class D, class V>
HWY_INLINE V Joined(D, V low, V) {
  return low;
}
#else
template <class D, class V>
HWY_INLINE hn::Vec<D> Joined(D d, V low, V high) {
  return hn::Combine(d, high, low);
}
#endif

struct Float16Codec {
  using Stored = uint16_t;
  using LanesOf = float;
  using Sum = float;
  template <class D>
  static constexpr bool kInHalves = hn::MaxLanes(D()) > 1;

  // Low: elements of the lower half. High: the others.
  template <class D>
  static HWY_INLINE hn::Repartition<float, D> LanesOfHalf(D) {
    return {};
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Repartition<float, D>> Low(D,
                                                           const uint8_t* from,
                                                           size_t index) {
    const hn::Half<D> half;
    return DecodeFloat16(hn::Repartition<float, D>(),
                         LoadElements(half, from, index));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Repartition<float, D>> High(D d,
                                                            const uint8_t* from,
                                                            size_t index) {
    return Low(d, from, index + hn::Lanes(hn::Half<D>()));
  }
  template <class D, class V>
  static HWY_INLINE hn::Vec<D> Encode(D d, V low, V high) {
    const hn::Repartition<float, D> df;
    return Joined(d, EncodeFloat16(df, CanonicalNaN(df, low)),
                  EncodeFloat16(df, CanonicalNaN(df, high)));
  }

  template <class D, class F>
  static HWY_INLINE void Visit(D, const F& f) {
    const hn::Rebind<float, D> df;
    f(df, Decode<decltype(df)>());
  }

  template <class D, class F>
  static HWY_INLINE hn::Vec<D> Compute(D, const F& f) {
    const hn::Rebind<float, D> df;
    return EncodeFloat16(df, CanonicalNaN(df, f(df, Decode<decltype(df)>())));
  }

 private:
  template <class DF>
  struct Decode {
    HWY_INLINE hn::Vec<DF> operator()(Codes<DF> codes) const {
      return DecodeFloat16(DF(), codes);
    }
  };
};

// Bits of magnitudes of a format of 8 bits, in a float.
template <class Format>
struct Float8Bits {
  static constexpr int kShift = 23 - Format::kMantissaBits;
  static constexpr int32_t kRebias = (127 - Format::kBias) << 23;
  static constexpr int32_t kFirstNormal = 1 << 23;  // Before the rebias.

  // Floats next to this one have the spacing of the denormals.
  static constexpr int32_t kNearDenormals =
      (127 + 24 - Format::kBias - Format::kMantissaBits) << 23;
};

// Like the conversions of float16 above, in integer arithmetic.
template <class Format, class DF, class V>
HWY_INLINE hn::Vec<DF> DecodeFloat8(DF df, V codes) {
  using Bits = Float8Bits<Format>;
  const hn::RebindToSigned<DF> di;
  const auto wide = hn::PromoteTo(di, codes);
  const auto magnitude = hn::And(wide, hn::Set(di, 0x7F));
  const auto sign = hn::ShiftLeft<24>(hn::Xor(wide, magnitude));
  const auto shifted = hn::ShiftLeft<Bits::kShift>(magnitude);
  const auto normal = hn::Add(shifted, hn::Set(di, Bits::kRebias));
  const auto special =
      Format::kHasInfinity
          ? hn::Add(normal, hn::Set(di, Bits::kRebias))
          : hn::BitCast(di,
                        hn::Set(df, std::numeric_limits<float>::quiet_NaN()));
  const auto implicit = hn::Set(di, Bits::kRebias + Bits::kFirstNormal);
  const auto denormal =
      hn::BitCast(di, hn::Sub(hn::BitCast(df, hn::Add(shifted, implicit)),
                              hn::BitCast(df, implicit)));
  const auto is_denormal = hn::Lt(shifted, hn::Set(di, Bits::kFirstNormal));
  const auto is_special =
      hn::Gt(magnitude, hn::Set(di, int32_t{Format::kLargest}));
  const auto value = hn::IfThenElse(
      is_denormal, denormal, hn::IfThenElse(is_special, special, normal));
  return hn::BitCast(df, hn::Or(sign, value));
}

// REQUIRES: NaNs are canonical.
template <class Format, class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint8_t, DF>> EncodeFloat8(DF df, hn::Vec<DF> v) {
  using Bits = Float8Bits<Format>;
  const hn::RebindToSigned<DF> di;
  const auto bits = hn::BitCast(di, v);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
  const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(di, 0x80));
  const auto is_odd =
      hn::And(hn::ShiftRight<Bits::kShift>(magnitude), hn::Set(di, 1));
  const auto rounding = hn::Add(
      is_odd, hn::Set(di, (1 << (Bits::kShift - 1)) - 1 - Bits::kRebias));
  const auto normal =
      hn::ShiftRight<Bits::kShift>(hn::Add(magnitude, rounding));
  const auto near = hn::Set(di, Bits::kNearDenormals);
  const auto sum = hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, near));
  const auto denormal = hn::Sub(hn::BitCast(di, sum), near);
  const auto is_denormal =
      hn::Lt(magnitude, hn::Set(di, Bits::kRebias + Bits::kFirstNormal));
  const auto finite = hn::Min(hn::IfThenElse(is_denormal, denormal, normal),
                              hn::Set(di, int32_t{Format::kLargest}));
  const auto is_nan = hn::Gt(magnitude, hn::Set(di, int32_t{255} << 23));
  const auto code =
      hn::IfThenElse(is_nan, hn::Set(di, int32_t{Format::kNaN}), finite);
  return hn::DemoteTo(hn::Rebind<uint8_t, DF>(), hn::Or(sign, code));
}

// Has no vectors of all lanes of Stored: a fold goes by tiles.
template <class Format>
struct Float8Codec {
  using Stored = uint8_t;
  using LanesOf = float;
  using Sum = float;
  template <class D>
  static constexpr bool kInHalves = false;

  template <class D, class F>
  static HWY_INLINE hn::Vec<D> Compute(D, const F& f) {
    const hn::Rebind<float, D> df;
    return EncodeFloat8<Format>(
        df, CanonicalNaN(df, f(df, Decode<decltype(df)>())));
  }

 private:
  template <class DF>
  struct Decode {
    template <class V>
    HWY_INLINE hn::Vec<DF> operator()(V codes) const {
      return DecodeFloat8<Format>(DF(), codes);
    }
  };
};

template <typename Element>
struct CodecFor {
  using Codec = std::conditional_t<std::is_integral_v<Element>,
                                   IntegerCodec<Element>, FloatCodec<Element>>;
};
template <>
struct CodecFor<bool> {
  using Codec = BoolCodec;
};
template <>
struct CodecFor<Float16> {
  using Codec = Float16Codec;
};
template <>
struct CodecFor<BFloat16> {
  using Codec = BFloat16Codec;
};
template <>
struct CodecFor<Float8E4M3FN> {
  using Codec = Float8Codec<E4M3FN>;
};
template <>
struct CodecFor<Float8E5M2> {
  using Codec = Float8Codec<E5M2>;
};
template <typename Part>
struct CodecFor<std::complex<Part>> {
  using Codec = ComplexCodec<Part>;
};

// Codec of the element type of a dtype.
template <typename Element>
using CodecOf = typename CodecFor<Element>::Codec;

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#undef TUTTI_NATIVE_FLOAT16

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_CODECS_INL_H_
