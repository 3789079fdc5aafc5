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
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  for (size_t i = 0; i < num_elements; ++i) {
    T value;
    std::memcpy(&value, values + i * sizeof(T), sizeof(T));
    value = static_cast<T>(Wide{value} / static_cast<Wide>(divisor));
    std::memcpy(values + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename Element>
void DivideElements(uint8_t* values, size_t num_elements, int64_t divisor) {
  if constexpr (kIsFloating<Element>) {
    DivideFloats<CodecOf<Element>>(values, num_elements, divisor);
  } else if constexpr (kIsInteger<Element>) {
    DivideIntegers<Element>(values, num_elements, divisor);
  }
}

template <class Codec, class Op>
struct Combining {
  static constexpr Combine kKernel = CombineElements<Codec, Op>;
};
template <class Codec, class Op>
struct Folding {
  static constexpr Fold kKernel = FoldElements<Codec, Op>;
};

// Integers that an operation computes with: unsigned ones unless it compares
// them, because overflow of signed ones is undefined.
template <class Op, typename T>
using IntegerFor =
    std::conditional_t<std::is_same_v<Op, Min> || std::is_same_v<Op, Max>, T,
                       std::make_unsigned_t<T>>;

// Kernel<Codec, Op> for the element types that the operation supports,
// `nothing` for the others.
template <template <class, class> class Kernel, class Op, typename Element,
          typename Function>
constexpr Function KernelOf(Function nothing) {
  constexpr bool kIsBitwise = std::is_same_v<Op, Band> ||
                              std::is_same_v<Op, Bor> ||
                              std::is_same_v<Op, Bxor>;
  if constexpr (kIsInteger<Element>) {
    return Kernel<IntegerCodec<IntegerFor<Op, Element>>, Op>::kKernel;
  } else if constexpr (kIsFloating<Element> && !kIsBitwise) {
    return Kernel<CodecOf<Element>, Op>::kKernel;
  } else {
    return nothing;
  }
}

// Table in the order of ReductionKind. Rows are in the order of DType.
template <template <class, class> class Kernel, typename Function>
constexpr std::array<PerDType<Function>, kAllReductionKinds.size()> Table(
    Function nothing) {
  const auto row = [nothing]<class Op>(Op) {
    return ForEachDType([nothing]<typename Element>(Element) {
      return KernelOf<Kernel, Op, Element>(nothing);
    });
  };
  return {row(Sum()),  row(Prod()), row(Min()), row(Max()),
          row(Band()), row(Bor()),  row(Bxor())};
}

constexpr ReductionKernels kKernels = {
    .combine = Table<Combining>(Combine{CombineNothing}),
    .fold = Table<Folding>(Fold{FoldNothing}),
    .divide = ForEachDType([]<typename Element>(Element) -> Divide {
      return DivideElements<Element>;
    }),
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
