#ifndef TUTTI_GPU_KERNELS_KERNEL_LOOPS_H_
#define TUTTI_GPU_KERNELS_KERNEL_LOOPS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu/kernels/element_ops.h"
#include "gpu/kernels/kernel_arguments.h"

// Work of one thread of a kernel. Compiled for the device, and for the host,
// where tests run it. Threads share nothing: one thread reads and writes each
// element, and it reads all inputs before it writes.

namespace tutti::gpu {

// Elements that one access moves.
template <typename Stored>
struct alignas(kPackBytes) Pack {
  static constexpr size_t kSize = kPackBytes / sizeof(Stored);
  Stored elements[kSize];
};

// A pack of any type, as it lies in registers.
using Words = Pack<uint32_t>;

template <typename T>
TUTTI_HOST_DEVICE T LoadAligned(const uint8_t* from) {
  return *reinterpret_cast<const T*>(from);
}
template <typename T>
TUTTI_HOST_DEVICE void StoreAligned(const T& value, uint8_t* to) {
  *reinterpret_cast<T*>(to) = value;
}

// Reads byte by byte if `from` is not aligned.
template <typename T>
TUTTI_HOST_DEVICE T Load(const uint8_t* from, bool is_aligned) {
  if (is_aligned) return LoadAligned<T>(from);
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <typename T>
TUTTI_HOST_DEVICE void Store(T value, uint8_t* to, bool is_aligned) {
  if (is_aligned) return StoreAligned(value, to);
  std::memcpy(to, &value, sizeof(value));
}

// Reduces the element at `index`.
template <class Format, class Op>
TUTTI_HOST_DEVICE void ReduceElement(const ReduceArguments& arguments,
                                     size_t index) {
  using Stored = typename Format::Stored;
  const size_t offset = index * sizeof(Stored);
  const bool is_aligned = arguments.is_aligned;
  auto value =
      Format::Read(Load<Stored>(arguments.inputs[0] + offset, is_aligned));
  TUTTI_UNROLL
  for (int i = 1; i < kMaxBuffers; ++i) {
    if (i < arguments.num_inputs) {
      value = Op::Of(value, Format::Read(Load<Stored>(
                                arguments.inputs[i] + offset, is_aligned)));
    }
  }
  if constexpr (kIsWide<Format>) {
    for (int i = kMaxBuffers; i < arguments.num_inputs; ++i) {
      value = Op::Of(value, Format::Read(Load<Stored>(
                                arguments.inputs[i] + offset, is_aligned)));
    }
  }
  if (arguments.divisor != 1) value = Quotient(value, arguments.divisor);
  TUTTI_UNROLL
  for (int i = 0; i < kMaxBuffers; ++i) {
    if (i < arguments.num_outputs) {
      Store(Format::Write(value), arguments.outputs[i] + offset, is_aligned);
    }
  }
}

// Folds the elements of a pack over all inputs. Loads all packs before it uses
// the first, to keep the memory busy.
template <class Format, class Op>
TUTTI_HOST_DEVICE void FoldPacks(const ReduceArguments& arguments,
                                 size_t offset,
                                 typename Format::Value* values) {
  using Packed = Pack<typename Format::Stored>;
  Words packs[kMaxBuffers] = {};
  TUTTI_UNROLL
  for (int i = 0; i < kMaxBuffers; ++i) {
    if (i < arguments.num_inputs) {
      packs[i] = LoadAligned<Words>(arguments.inputs[i] + offset);
    }
  }
  const auto first = std::bit_cast<Packed>(packs[0]);
  TUTTI_UNROLL
  for (size_t j = 0; j < Packed::kSize; ++j) {
    values[j] = Format::Read(first.elements[j]);
  }
  TUTTI_UNROLL
  for (int i = 1; i < kMaxBuffers; ++i) {
    if (i < arguments.num_inputs) {
      const auto pack = std::bit_cast<Packed>(packs[i]);
      TUTTI_UNROLL
      for (size_t j = 0; j < Packed::kSize; ++j) {
        values[j] = Op::Of(values[j], Format::Read(pack.elements[j]));
      }
    }
  }
  if constexpr (kIsWide<Format>) {
    for (int i = kMaxBuffers; i < arguments.num_inputs; ++i) {
      const auto pack = std::bit_cast<Packed>(
          LoadAligned<Words>(arguments.inputs[i] + offset));
      TUTTI_UNROLL
      for (size_t j = 0; j < Packed::kSize; ++j) {
        values[j] = Op::Of(values[j], Format::Read(pack.elements[j]));
      }
    }
  }
}

// Reduces the pack whose first element is at `index`.
template <class Format, class Op>
TUTTI_HOST_DEVICE void ReducePack(const ReduceArguments& arguments,
                                  size_t index) {
  using Packed = Pack<typename Format::Stored>;
  const size_t offset = index * sizeof(typename Format::Stored);
  typename Format::Value values[Packed::kSize];
  FoldPacks<Format, Op>(arguments, offset, values);
  if (arguments.divisor != 1) {
    TUTTI_UNROLL
    for (size_t j = 0; j < Packed::kSize; ++j) {
      values[j] = Quotient(values[j], arguments.divisor);
    }
  }
  Packed result;
  TUTTI_UNROLL
  for (size_t j = 0; j < Packed::kSize; ++j) {
    result.elements[j] = Format::Write(values[j]);
  }
  TUTTI_UNROLL
  for (int i = 0; i < kMaxBuffers; ++i) {
    if (i < arguments.num_outputs) {
      StoreAligned(std::bit_cast<Words>(result), arguments.outputs[i] + offset);
    }
  }
}

// Reduces the share of thread `thread` of `num_threads`.
template <class Format, class Op>
TUTTI_HOST_DEVICE void ReduceShare(const ReduceArguments& arguments,
                                   size_t thread, size_t num_threads) {
  constexpr size_t kPackSize = Pack<typename Format::Stored>::kSize;
  const size_t head = arguments.head_elements;
  for (size_t i = thread; i < arguments.num_packs; i += num_threads) {
    ReducePack<Format, Op>(arguments, head + i * kPackSize);
  }
  const size_t in_packs = arguments.num_packs * kPackSize;
  const size_t num_single = arguments.num_elements - in_packs;
  for (size_t i = thread; i < num_single; i += num_threads) {
    ReduceElement<Format, Op>(arguments, i < head ? i : i + in_packs);
  }
}

template <class Word>
TUTTI_HOST_DEVICE void StoreToAll(const CopyArguments& arguments,
                                  const Word& word, size_t offset) {
  TUTTI_UNROLL
  for (int i = 0; i < kMaxBuffers; ++i) {
    if (i < arguments.num_outputs) {
      StoreAligned(word, arguments.outputs[i] + offset);
    }
  }
}

// Words that a thread loads before it writes the first.
inline constexpr size_t kAhead = 4;

// Copies up to kAhead words at `first`, `first + stride`, ... Loads all of them
// before it writes the first.
template <class Word>
TUTTI_HOST_DEVICE void CopyWords(const CopyArguments& arguments, size_t first,
                                 size_t stride) {
  Word words[kAhead] = {};
  TUTTI_UNROLL
  for (size_t i = 0; i < kAhead; ++i) {
    const size_t word = first + i * stride;
    if (word < arguments.num_words) {
      words[i] = LoadAligned<Word>(arguments.input + arguments.head_bytes +
                                   word * sizeof(Word));
    }
  }
  TUTTI_UNROLL
  for (size_t i = 0; i < kAhead; ++i) {
    const size_t word = first + i * stride;
    if (word < arguments.num_words) {
      StoreToAll(arguments, words[i],
                 arguments.head_bytes + word * sizeof(Word));
    }
  }
}

// Copies the share of thread `thread` of `num_threads`. REQUIRES: sizeof(Word)
// == arguments.word_bytes.
template <class Word>
TUTTI_HOST_DEVICE void CopyShare(const CopyArguments& arguments, size_t thread,
                                 size_t num_threads) {
  for (size_t i = thread; i < arguments.num_words; i += kAhead * num_threads) {
    CopyWords<Word>(arguments, i, num_threads);
  }
  const size_t head = arguments.head_bytes;
  const size_t in_words = arguments.num_words * sizeof(Word);
  const size_t num_single = arguments.num_bytes - in_words;
  for (size_t i = thread; i < num_single; i += num_threads) {
    const size_t offset = i < head ? i : i + in_words;
    StoreToAll(arguments, arguments.input[offset], offset);
  }
}

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_KERNEL_LOOPS_H_
