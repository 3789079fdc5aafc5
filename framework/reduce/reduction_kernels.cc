#include "framework/reduce/reduction_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

// No CPU in use has SSSE3 without SSE4.
#define HWY_DISABLED_TARGETS HWY_SSSE3

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/reduce/reduction_kernels.cc"
#include "hwy/foreach_target.h"
// Included after foreach_target.h; the order matters.
#include "framework/reduce/complex_products.h"
#include "framework/reduce/reduction_codecs-inl.h"
#include "framework/reduce/reduction_fan_out-inl.h"
#include "framework/reduce/reduction_fold-inl.h"
#include "framework/reduce/reduction_loop-inl.h"
#include "framework/reduce/reduction_ops-inl.h"
#include "framework/reduce/reduction_widen-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {
namespace {

using Combine = ReductionKernels::Combine;
using Divide = ReductionKernels::Divide;
using Multiply = ReductionKernels::Multiply;
using Narrow = ReductionKernels::Narrow;
using Widen = ReductionKernels::Widen;
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

size_t WidenNothing(const uint8_t*, uint8_t*, size_t) { return 0; }

void NarrowNothing(const uint8_t*, uint8_t*, size_t) {}

// Computes into[i] = op(from[i]) for floats and for the parts of complex
// numbers; nothing for other elements.
template <typename Element, class Op>
void MapFloats(const uint8_t* from, uint8_t* into, size_t num_elements, Op op) {
  if constexpr (kIsFloating<Element>) {
    using Codec = CodecOf<Element>;
    WriteElements<typename Codec::Stored, typename Codec::LanesOf>(
        Mapped<Codec, Op>{from, op}, ToOne{into}, 0, num_elements);
  } else if constexpr (kIsComplex<Element>) {
    using Part = typename Element::value_type;
    MapFloats<Part>(from, into, 2 * num_elements, op);
  }
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
  if constexpr (kIsInteger<Element>) {
    DivideIntegers<Element>(values, num_elements, divisor);
  } else {
    MapFloats<Element>(values, values, num_elements, Quotient{divisor});
  }
}

template <typename Element>
void MultiplyElements(const uint8_t* from, uint8_t* into, size_t num_elements,
                      double factor) {
  MapFloats<Element>(from, into, num_elements, Multiple{factor});
}

template <class Codec, class Op>
struct Combining {
  static constexpr Combine kKernel = CombineElements<Codec, Op>;
};
template <class Codec, class Op>
struct Folding {
  static constexpr Fold kKernel = FoldElements<Codec, Op>;
};
template <class Format, class Op>
struct Folding<Float8Codec<Format>, Op> {
  static constexpr Fold kKernel = FoldNarrowFloats<Float8Codec<Format>, Op>;
};

template <typename T>
void CombineComplexSums(const uint8_t* left, const uint8_t* right,
                        uint8_t* into, size_t num_elements) {
  CombineElements<FloatCodec<T>, Sum>(left, right, into, 2 * num_elements);
}
template <typename T>
void FoldComplexSums(const FoldArguments& arguments) {
  FoldArguments parts = arguments;
  parts.num_elements *= 2;
  FoldElements<FloatCodec<T>, Sum>(parts);
}

template <typename T>
void FoldComplexProducts(const FoldArguments& arguments) {
  if (arguments.inputs.size() == 1) return FoldComplexSums<T>(arguments);
  constexpr size_t kElementBytes = 2 * sizeof(T);
  constexpr size_t kElements = kTileBytes / kElementBytes;
  alignas(kLineBytes) uint8_t tile[kTileBytes];
  for (size_t begin = 0; begin < arguments.num_elements; begin += kElements) {
    const size_t size = std::min(kElements, arguments.num_elements - begin);
    const size_t offset = begin * kElementBytes;
    const uint8_t* product = arguments.inputs[0] + offset;
    for (const uint8_t* input : arguments.inputs.subspan(1)) {
      MultiplyComplex<T>(product, input + offset, tile, size);
      product = tile;
    }
    CopyToAll(tile, arguments, offset, size * kElementBytes);
  }
}

template <typename T>
struct Combining<ComplexCodec<T>, Sum> {
  static constexpr Combine kKernel = CombineComplexSums<T>;
};
template <typename T>
struct Combining<ComplexCodec<T>, Prod> {
  static constexpr Combine kKernel = MultiplyComplex<T>;
};
template <typename T>
struct Folding<ComplexCodec<T>, Sum> {
  static constexpr Fold kKernel = FoldComplexSums<T>;
};
template <typename T>
struct Folding<ComplexCodec<T>, Prod> {
  static constexpr Fold kKernel = FoldComplexProducts<T>;
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
  constexpr bool kIsArithmetic =
      std::is_same_v<Op, Sum> || std::is_same_v<Op, Prod>;
  if constexpr (kIsInteger<Element>) {
    return Kernel<IntegerCodec<IntegerFor<Op, Element>>, Op>::kKernel;
  } else if constexpr (std::is_same_v<Element, bool> && !kIsArithmetic) {
    return Kernel<CodecOf<Element>, Op>::kKernel;
  } else if constexpr (kIsComplex<Element> && kIsArithmetic) {
    return Kernel<CodecOf<Element>, Op>::kKernel;
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

template <typename Element>
constexpr Widen WidenOf() {
  if constexpr (kIsFloating<Element>) {
    if constexpr (sizeof(Element) == 1) {
      return WidenOneByOne<Element>;
    } else if constexpr (kWidens<CodecOf<Element>>) {
      return WidenElements<CodecOf<Element>>;
    }
  }
  return WidenNothing;
}

template <typename Element>
constexpr Narrow NarrowOf() {
  if constexpr (kIsFloating<Element>) {
    if constexpr (sizeof(Element) == 1) {
      return NarrowOneByOne<Element>;
    } else if constexpr (kWidens<CodecOf<Element>>) {
      return NarrowElements<CodecOf<Element>>;
    }
  }
  return NarrowNothing;
}

constexpr ReductionKernels kKernels = {
    .combine = Table<Combining>(Combine{CombineNothing}),
    .fold = Table<Folding>(Fold{FoldNothing}),
    .mean = ForEachDType([]<typename Element>(Element) -> Fold {
      if constexpr (kIsInteger<Element>) return FoldToMean<Element>;
      return FoldNothing;
    }),
    .divide = ForEachDType([]<typename Element>(Element) -> Divide {
      return DivideElements<Element>;
    }),
    .multiply = ForEachDType([]<typename Element>(Element) -> Multiply {
      return MultiplyElements<Element>;
    }),
    .widen = ForEachDType(
        []<typename Element>(Element) { return WidenOf<Element>(); }),
    .narrow = ForEachDType(
        []<typename Element>(Element) { return NarrowOf<Element>(); }),
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
