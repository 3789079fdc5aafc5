// Reduction of many buffers: in one pass, or in two levels.

// Included once per Highway target, hence the unusual guard.
#if defined(TUTTI_FRAMEWORK_REDUCE_REDUCTION_FOLD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_FRAMEWORK_REDUCE_REDUCTION_FOLD_INL_H_
#undef TUTTI_FRAMEWORK_REDUCE_REDUCTION_FOLD_INL_H_
#else
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_FOLD_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/types/span.h"
#include "framework/reduce/reduction_codecs-inl.h"
#include "framework/reduce/reduction_fan_out-inl.h"
#include "framework/reduce/reduction_kernels.h"
#include "framework/reduce/reduction_loop-inl.h"
#include "framework/reduce/reduction_ops-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Beyond kManyBuffers inputs or outputs, only kMostBuffers are read or written
// side by side. More would evict each other's lines from the first-level cache,
// whose associativity limits equally aligned buffers, and would defeat
// prefetching. Measured on an AMD EPYC (Zen 4), November 2026, with 32 MiB in
// all. Compared with one pass: 1.8 times as fast with 16 buffers (0.9 in
// place), 3 times with 64, 0.8 times with 9.
constexpr size_t kManyBuffers = 12;
constexpr size_t kMostBuffers = 8;

// Tile size in this case. A tile and its inputs stay in a first-level cache of
// 32 KiB.
constexpr size_t kTileBytes = 8192;

// Partial sums of the elements of a tile. Sums of one vector of elements are
// adjacent, in the order in which the codec computes them.
struct Sums {
  uint8_t* bytes;
  size_t begin;  // Element of the first sum.
};

// Some inputs of a fold, in order. Each function below handles as many elements
// from `index` on as `d` has lanes.
template <class Codec, class Op>
struct Folded {
  using Stored = typename Codec::Stored;

  absl::Span<const uint8_t* const> inputs;
  int64_t divisor = 1;
  const Sums* sums = nullptr;  // Sums of earlier inputs; null if none.

  // Returns the sum of all inputs, divided: a vector of the dtype.
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, size_t index) const {
    if constexpr (Codec::template kInHalves<D>) {
      const auto lanes = Codec::LanesOfHalf(d);
      auto low = Begin(d, lanes, index, 0);
      auto high = Begin(d, lanes, index, 1);
      AddBoth(d, lanes, index, low, high);
      return Codec::Encode(d, Divided(lanes, low), Divided(lanes, high));
    } else {
      return Codec::Compute(d, [&](auto lanes, auto decode) HWY_ATTR {
        return Divided(lanes, AddAll(d, lanes, decode, index));
      });
    }
  }

  // Stores the sum, neither divided nor rounded, to `to`.
  template <class D>
  HWY_INLINE void Store(D d, size_t index, const Sums& to) const {
    if constexpr (Codec::template kInHalves<D>) {
      const auto lanes = Codec::LanesOfHalf(d);
      auto low = Begin(d, lanes, index, 0);
      auto high = Begin(d, lanes, index, 1);
      AddBoth(d, lanes, index, low, high);
      StoreBytes(lanes, low, At(to, lanes, index, 0));
      StoreBytes(lanes, high, At(to, lanes, index, 1));
    } else {
      Codec::Visit(d, [&](auto lanes, auto decode) HWY_ATTR {
        StoreBytes(lanes, AddAll(d, lanes, decode, index),
                   At(to, lanes, index, 0));
      });
    }
  }

 private:
  template <class DL>
  static HWY_INLINE uint8_t* At(const Sums& sums, DL lanes, size_t index,
                                size_t half) {
    return sums.bytes + (index - sums.begin + half * hn::Lanes(lanes)) *
                            sizeof(hn::TFromD<DL>);
  }

  // Index of the first input to add. Input 0 starts the sum if there is none.
  size_t First() const { return sums == nullptr ? 1 : 0; }

  template <class D, class DL>
  HWY_INLINE hn::Vec<DL> Begin(D d, DL lanes, size_t index, size_t half) const {
    if (sums != nullptr) return LoadBytes(lanes, At(*sums, lanes, index, half));
    return half == 0 ? Codec::Low(d, inputs[0], index)
                     : Codec::High(d, inputs[0], index);
  }

  // Alternates between both halves, so a line is read while it is in the cache.
  template <class D, class DL>
  HWY_INLINE void AddBoth(D d, DL lanes, size_t index, hn::Vec<DL>& low,
                          hn::Vec<DL>& high) const {
    for (size_t i = First(); i < inputs.size(); ++i) {
      low = Op()(lanes, low, Codec::Low(d, inputs[i], index));
      high = Op()(lanes, high, Codec::High(d, inputs[i], index));
    }
  }

  template <class D, class DL, class Decode>
  HWY_INLINE hn::Vec<DL> AddAll(D d, DL lanes, const Decode& decode,
                                size_t index) const {
    auto sum = sums != nullptr ? LoadBytes(lanes, At(*sums, lanes, index, 0))
                               : decode(LoadElements(d, inputs[0], index));
    for (size_t i = First(); i < inputs.size(); ++i) {
      sum = Op()(lanes, sum, decode(LoadElements(d, inputs[i], index)));
    }
    return sum;
  }

  template <class DL>
  HWY_INLINE hn::Vec<DL> Divided(DL lanes, hn::Vec<DL> sum) const {
    if constexpr (hwy::IsFloat<hn::TFromD<DL>>()) {
      if (divisor != 1) return Quotient{divisor}(lanes, sum);
    }
    return sum;
  }
};

// Copies `from` to all buffers, a few at a time, from byte `offset` on.
HWY_INLINE void CopyToAll(const uint8_t* from, const FoldArguments& arguments,
                          size_t offset, size_t num_bytes) {
  std::array<uint8_t*, kMostBuffers> at;
  const auto copy = [&](absl::Span<uint8_t* const> buffers,
                        bool past_caches) HWY_ATTR {
    for (size_t i = 0; i < buffers.size(); i += kMostBuffers) {
      const auto some = buffers.subspan(i, kMostBuffers);
      for (size_t j = 0; j < some.size(); ++j) at[j] = some[j] + offset;
      FoldArguments part;
      part.inputs = {&from, 1};
      (past_caches ? part.streamed : part.outputs) =
          absl::MakeConstSpan(at.data(), some.size());
      part.num_elements = num_bytes;
      WriteToAll<IntegerCodec<uint8_t>>(
          Folded<IntegerCodec<uint8_t>, Bor>{part.inputs}, part);
    }
  };
  copy(arguments.outputs, /*past_caches=*/false);
  copy(arguments.streamed, /*past_caches=*/true);
}

// Computes elements [begin, end), which are whole lines, into `tile`. Adds a
// few inputs at a time to the sums of the inputs before.
template <class Codec, class Op>
HWY_INLINE void FoldTile(const FoldArguments& arguments, size_t begin,
                         size_t end, uint8_t* tile) {
  using Stored = typename Codec::Stored;
  const hn::CappedTag<Stored, kLineBytes / sizeof(Stored)> line;
  alignas(kLineBytes) uint8_t bytes[kTileBytes];
  const Sums sums = {bytes, begin};
  Folded<Codec, Op> next = {arguments.inputs.subspan(0, kMostBuffers)};
  auto rest = arguments.inputs.subspan(next.inputs.size());
  while (!rest.empty()) {
    for (size_t i = begin; i < end; i += hn::Lanes(line)) {
      next.Store(line, i, sums);
    }
    next.sums = &sums;
    next.inputs = rest.subspan(0, kMostBuffers - 1);
    rest = rest.subspan(next.inputs.size());
  }
  next.divisor = arguments.divisor;
  for (size_t i = begin; i < end; i += hn::Lanes(line)) {
    StoreElements(line, next(line, i), tile, i - begin);
  }
}

// Folds in two levels: tile by tile.
template <class Codec, class Op>
HWY_NOINLINE void FoldByTiles(const FoldArguments& arguments) {
  using Stored = typename Codec::Stored;
  constexpr size_t kElements = kTileBytes / sizeof(typename Codec::Sum);
  constexpr size_t kLineElements = kLineBytes / sizeof(Stored);
  alignas(kLineBytes) uint8_t tile[kElements * sizeof(Stored)];
  const size_t size = arguments.num_elements;
  const size_t whole_lines = size / kLineElements * kLineElements;
  for (size_t begin = 0; begin < whole_lines; begin += kElements) {
    const size_t end = std::min(begin + kElements, whole_lines);
    FoldTile<Codec, Op>(arguments, begin, end, tile);
    CopyToAll(tile, arguments, begin * sizeof(Stored),
              (end - begin) * sizeof(Stored));
  }
  WriteElements<typename Codec::Stored, Stored>(
      Folded<Codec, Op>{arguments.inputs, arguments.divisor}, ToAll{arguments},
      whole_lines, size);
}

struct ToTile {
  uint8_t* tile;
  size_t begin;  // First element of the tile.

  template <class D>
  HWY_INLINE void operator()(D d, hn::Vec<D> v, size_t index) const {
    StoreElements(d, v, tile, index - begin);
  }
};

// Folds floats of 8 bits, whose vectors have the lanes of floats.
template <class Codec, class Op>
void FoldNarrowFloats(const FoldArguments& arguments) {
  alignas(kLineBytes) uint8_t tile[kTileBytes];
  const Folded<Codec, Op> folded = {arguments.inputs, arguments.divisor};
  for (size_t begin = 0; begin < arguments.num_elements; begin += kTileBytes) {
    const size_t size = std::min(kTileBytes, arguments.num_elements - begin);
    WriteElements<uint8_t, typename Codec::LanesOf>(folded, ToTile{tile, begin},
                                                    begin, begin + size);
    CopyToAll(tile, arguments, begin, size);
  }
}

template <class Codec, class Op>
void FoldElements(const FoldArguments& arguments) {
  const size_t num_outputs =
      arguments.outputs.size() + arguments.streamed.size();
  if (arguments.inputs.size() > kManyBuffers || num_outputs > kManyBuffers) {
    return FoldByTiles<Codec, Op>(arguments);
  }
  WriteToAll<Codec>(Folded<Codec, Op>{arguments.inputs, arguments.divisor},
                    arguments);
}

// Element, as Tensor::Wrap() takes any memory.
template <typename T>
HWY_INLINE T LoadElement(const uint8_t* elements, size_t index) {
  T element;
  std::memcpy(&element, elements + index * sizeof(T), sizeof(T));
  return element;
}

// Holds every sum of as many integers as a group has members.
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;
template <typename T>
using WideFor =
    std::conditional_t<std::is_signed_v<T>,
                       std::conditional_t<sizeof(T) == 8, Int128, int64_t>,
                       std::conditional_t<sizeof(T) == 8, Uint128, uint64_t>>;

// Writes the exact mean of integers, truncated toward zero. Element by element:
// the division takes longer than the rest.
template <typename T>
void FoldToMean(const FoldArguments& arguments) {
  using Wide = WideFor<T>;
  constexpr size_t kElements = kTileBytes / sizeof(Wide);
  Wide sums[kElements];
  alignas(kLineBytes) uint8_t tile[kElements * sizeof(T)];
  const auto divisor = static_cast<Wide>(arguments.divisor);
  for (size_t begin = 0; begin < arguments.num_elements; begin += kElements) {
    const size_t size = std::min(kElements, arguments.num_elements - begin);
    std::fill_n(sums, size, Wide{0});
    for (const uint8_t* input : arguments.inputs) {
      for (size_t i = 0; i < size; ++i) {
        sums[i] += LoadElement<T>(input, begin + i);
      }
    }
    for (size_t i = 0; i < size; ++i) {
      const T mean = static_cast<T>(sums[i] / divisor);
      std::memcpy(tile + i * sizeof(T), &mean, sizeof(T));
    }
    CopyToAll(tile, arguments, begin * sizeof(T), size * sizeof(T));
  }
}

// Copies the bytes of the only input to all outputs.
inline void CopyElements(const FoldArguments& arguments) {
  const uint8_t* const from = arguments.inputs[0];
  for (size_t begin = 0; begin < arguments.num_elements; begin += kTileBytes) {
    CopyToAll(from + begin, arguments, begin,
              std::min(kTileBytes, arguments.num_elements - begin));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_FOLD_INL_H_
