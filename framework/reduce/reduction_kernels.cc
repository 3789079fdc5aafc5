#include "framework/reduce/reduction_kernels.h"

#include <array>
#include <cstring>
#include <type_traits>

// No CPU in use has SSSE3 without SSE4.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/reduce/reduction_kernels.cc"
#include "hwy/foreach_target.h"
// Included after foreach_target.h; the order matters.
#include "framework/reduce/reduction_codecs-inl.h"
#include "framework/reduce/reduction_fan_out-inl.h"
#include "framework/reduce/reduction_fold-inl.h"
#include "framework/reduce/reduction_loop-inl.h"
#include "framework/reduce/reduction_ops-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {
namespace {

using Combine = ReductionKernels::Combine;
using Divide = ReductionKernels::Divide;
template <typename Kernel>
using PerDType = ReductionKernels::PerDType<Kernel>;

using Fold = ReductionKernels::Fold;

template <class Codec, class Op>
struct Combined {
  const uint8_t* left;
  const uint8_t* right;

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, size_t index) const {
    return Codec::Compute(d, [&](auto lanes, auto decode) HWY_ATTR {
      return Op()(lanes, decode(LoadElements(d, left, index)),
                  decode(LoadElements(d, right, index)));
    });
  }
};

template <class Codec, class Op>
struct Mapped {
  const uint8_t* values;
  Op op;

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, size_t index) const {
    return Codec::Compute(d, [&](auto lanes, auto decode) HWY_ATTR {
      return op(lanes, decode(LoadElements(d, values, index)));
    });
  }
};

template <class Codec, class Op>
void CombineElements(const uint8_t* left, const uint8_t* right, uint8_t* into,
                     size_t num_elements) {
  WriteElements<typename Codec::Stored, typename Codec::LanesOf>(
      Combined<Codec, Op>{left, right}, ToOne{into}, 0, num_elements);
}

void CombineNothing(const uint8_t*, const uint8_t*, uint8_t*, size_t) {}

void FoldNothing(const FoldArguments&) {}

template <class Codec>
void DivideFloats(uint8_t* values, size_t num_elements, int64_t divisor) {
  WriteElements<typename Codec::Stored, typename Codec::LanesOf>(
      Mapped<Codec, Quotient>{values, {divisor}}, ToOne{values}, 0,
      num_elements);
}

template <typename T>
void DivideIntegers(uint8_t* values, size_t num_elements, int64_t divisor) {
  for (size_t i = 0; i < num_elements; ++i) {
    T value;
    std::memcpy(&value, values + i * sizeof(T), sizeof(T));
    value = static_cast<T>(int64_t{value} / divisor);
    std::memcpy(values + i * sizeof(T), &value, sizeof(T));
  }
}

void DivideNothing(uint8_t*, size_t, int64_t) {}

template <class Codec, class Op>
struct Combining {
  static constexpr Combine kKernel = CombineElements<Codec, Op>;
};
template <class Codec, class Op>
struct Folding {
  static constexpr Fold kKernel = FoldElements<Codec, Op>;
};

// Rows of the tables, in the order of DType: Kernel<Codec, Op> for supported
// dtypes, `nothing` for the others. Signed integers use the unsigned kernels of
// operations that wrap around, which avoids undefined overflow.
template <template <class, class> class Kernel, class Op>
constexpr auto Wrapping(decltype(Kernel<Float16Codec, Op>::kKernel) nothing) {
  return PerDType<std::remove_const_t<decltype(nothing)>>{
      Kernel<Float16Codec, Op>::kKernel,
      Kernel<BFloat16Codec, Op>::kKernel,
      Kernel<FloatCodec<float>, Op>::kKernel,
      Kernel<FloatCodec<double>, Op>::kKernel,
      Kernel<IntegerCodec<uint8_t>, Op>::kKernel,
      Kernel<IntegerCodec<uint8_t>, Op>::kKernel,
      Kernel<IntegerCodec<uint32_t>, Op>::kKernel,
      Kernel<IntegerCodec<uint64_t>, Op>::kKernel,
      nothing};
}

template <template <class, class> class Kernel, class Op>
constexpr auto Ordering(decltype(Kernel<Float16Codec, Op>::kKernel) nothing) {
  return PerDType<std::remove_const_t<decltype(nothing)>>{
      Kernel<Float16Codec, Op>::kKernel,
      Kernel<BFloat16Codec, Op>::kKernel,
      Kernel<FloatCodec<float>, Op>::kKernel,
      Kernel<FloatCodec<double>, Op>::kKernel,
      Kernel<IntegerCodec<int8_t>, Op>::kKernel,
      Kernel<IntegerCodec<uint8_t>, Op>::kKernel,
      Kernel<IntegerCodec<int32_t>, Op>::kKernel,
      Kernel<IntegerCodec<int64_t>, Op>::kKernel,
      nothing};
}

template <template <class, class> class Kernel, class Op>
constexpr auto Bitwise(
    decltype(Kernel<IntegerCodec<uint8_t>, Op>::kKernel) nothing) {
  return PerDType<std::remove_const_t<decltype(nothing)>>{
      nothing,
      nothing,
      nothing,
      nothing,
      Kernel<IntegerCodec<uint8_t>, Op>::kKernel,
      Kernel<IntegerCodec<uint8_t>, Op>::kKernel,
      Kernel<IntegerCodec<uint32_t>, Op>::kKernel,
      Kernel<IntegerCodec<uint64_t>, Op>::kKernel,
      nothing};
}

// Table in the order of ReductionKind.
template <template <class, class> class Kernel, typename Function>
constexpr std::array<PerDType<Function>, kAllReductionKinds.size()> Table(
    Function nothing) {
  return {Wrapping<Kernel, Sum>(nothing), Wrapping<Kernel, Prod>(nothing),
          Ordering<Kernel, Min>(nothing), Ordering<Kernel, Max>(nothing),
          Bitwise<Kernel, Band>(nothing), Bitwise<Kernel, Bor>(nothing),
          Bitwise<Kernel, Bxor>(nothing)};
}

constexpr ReductionKernels kKernels = {
    .combine = Table<Combining>(Combine{CombineNothing}),
    .fold = Table<Folding>(Fold{FoldNothing}),
    .divide = {DivideFloats<Float16Codec>, DivideFloats<BFloat16Codec>,
               DivideFloats<FloatCodec<float>>,
               DivideFloats<FloatCodec<double>>, DivideIntegers<int8_t>,
               DivideIntegers<uint8_t>, DivideIntegers<int32_t>,
               DivideIntegers<int64_t>, DivideNothing},
    .copy = CopyElements,
};

const ReductionKernels& Kernels() { return kKernels; }

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace tutti {

HWY_EXPORT(Kernels);

const ReductionKernels& KernelsOfThisCpu() {
  return HWY_DYNAMIC_DISPATCH(Kernels)();
}

}  // namespace tutti

#endif  // HWY_ONCE
