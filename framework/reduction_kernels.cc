#include "framework/reduction_kernels.h"

#include <cstring>

// Between the baseline and SSE4 lies nothing that is still in use.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/reduction_kernels.cc"
#include "hwy/foreach_target.h"
// Order matters: after foreach_target.h.
#include "framework/reduction_codecs-inl.h"
#include "framework/reduction_loop-inl.h"
#include "framework/reduction_ops-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {
namespace {

using Combine = ReductionKernels::Combine;
using Divide = ReductionKernels::Divide;
template <typename Kernel>
using PerDType = ReductionKernels::PerDType<Kernel>;

template <class Codec, class Op>
struct Combined {
  const uint8_t* left;
  const uint8_t* right;

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, size_t index) const {
    return Codec::Map(d, Op(), LoadElements(d, left, index),
                      LoadElements(d, right, index));
  }
};

template <class Codec, class Op>
struct Mapped {
  const uint8_t* values;
  Op op;

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, size_t index) const {
    return Codec::Map(d, op, LoadElements(d, values, index));
  }
};

template <class Codec, class Op>
void CombineElements(const uint8_t* left, const uint8_t* right, uint8_t* into,
                     size_t num_elements) {
  WriteElements<Codec>(Combined<Codec, Op>{left, right}, into, num_elements);
}

void CombineNothing(const uint8_t*, const uint8_t*, uint8_t*, size_t) {}

template <class Codec>
void DivideFloats(uint8_t* values, size_t num_elements, int64_t divisor) {
  WriteElements<Codec>(Mapped<Codec, Quotient>{values, {divisor}}, values,
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

// Rows of the table, in the order of DType. Signed and unsigned integers share
// what wraps around, and so avoid undefined overflow too.
template <class Op>
constexpr PerDType<Combine> kWrapping = {
    CombineElements<Float16Codec, Op>,
    CombineElements<BFloat16Codec, Op>,
    CombineElements<FloatCodec<float>, Op>,
    CombineElements<FloatCodec<double>, Op>,
    CombineElements<IntegerCodec<uint8_t>, Op>,
    CombineElements<IntegerCodec<uint8_t>, Op>,
    CombineElements<IntegerCodec<uint32_t>, Op>,
    CombineElements<IntegerCodec<uint64_t>, Op>,
    CombineNothing};

template <class Op>
constexpr PerDType<Combine> kOrdering = {
    CombineElements<Float16Codec, Op>,
    CombineElements<BFloat16Codec, Op>,
    CombineElements<FloatCodec<float>, Op>,
    CombineElements<FloatCodec<double>, Op>,
    CombineElements<IntegerCodec<int8_t>, Op>,
    CombineElements<IntegerCodec<uint8_t>, Op>,
    CombineElements<IntegerCodec<int32_t>, Op>,
    CombineElements<IntegerCodec<int64_t>, Op>,
    CombineNothing};

template <class Op>
constexpr PerDType<Combine> kBitwise = {
    CombineNothing,
    CombineNothing,
    CombineNothing,
    CombineNothing,
    CombineElements<IntegerCodec<uint8_t>, Op>,
    CombineElements<IntegerCodec<uint8_t>, Op>,
    CombineElements<IntegerCodec<uint32_t>, Op>,
    CombineElements<IntegerCodec<uint64_t>, Op>,
    CombineNothing};

// In the order of ReductionKind.
constexpr ReductionKernels kKernels = {
    .combine = {kWrapping<Sum>, kWrapping<Prod>, kOrdering<Min>, kOrdering<Max>,
                kBitwise<Band>, kBitwise<Bor>, kBitwise<Bxor>},
    .divide = {DivideFloats<Float16Codec>, DivideFloats<BFloat16Codec>,
               DivideFloats<FloatCodec<float>>,
               DivideFloats<FloatCodec<double>>, DivideIntegers<int8_t>,
               DivideIntegers<uint8_t>, DivideIntegers<int32_t>,
               DivideIntegers<int64_t>, DivideNothing},
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
