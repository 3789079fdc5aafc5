#include "gpu/kernels/kernel_plan.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace tutti::gpu {
namespace {

static_assert(kMaxBuffers == kMaxGpuBuffers);
static_assert(kMaxMeanInputs == kMaxGpuMeanInputs);

size_t Remainder(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes;
}

// True if all buffers have the same offset to a multiple of `bytes`.
template <class Arguments>
bool LieAlike(const void* first, const Arguments& arguments, size_t bytes) {
  return std::all_of(
      arguments.outputs, arguments.outputs + arguments.num_outputs,
      [&](const uint8_t* output) {
        return Remainder(output, bytes) == Remainder(first, bytes);
      });
}

bool InputsLieAlike(const ReduceArguments& arguments, size_t bytes) {
  return std::all_of(arguments.inputs, arguments.inputs + arguments.num_inputs,
                     [&](const uint8_t* input) {
                       return Remainder(input, bytes) ==
                              Remainder(arguments.inputs[0], bytes);
                     });
}

// Bytes from `pointer` to the next multiple of `bytes`.
size_t BytesToMultiple(const void* pointer, size_t bytes) {
  return (bytes - Remainder(pointer, bytes)) % bytes;
}

template <class Buffers, class Pointers>
int Fill(const Buffers& from, Pointers& into) {
  using Pointer = std::remove_extent_t<std::remove_reference_t<Pointers>>;
  std::transform(from.begin(), from.end(), into,
                 [](auto* buffer) { return static_cast<Pointer>(buffer); });
  return static_cast<int>(from.size());
}

size_t RoundUpQuotient(size_t a, size_t b) { return a / b + (a % b != 0); }

}  // namespace

ReduceArguments PlanReduce(const GpuReduction& reduction) {
  ReduceArguments arguments = {.num_elements = reduction.num_elements,
                               .divisor = reduction.divisor};
  if (reduction.dtype == DType::kBool) arguments.divisor = 1;
  arguments.num_inputs = Fill(reduction.inputs, arguments.inputs);
  arguments.num_outputs = Fill(reduction.outputs, arguments.outputs);
  const size_t size = SizeOf(reduction.dtype);
  const uint8_t* first = arguments.inputs[0];
  const auto lie_alike = [&](size_t bytes) {
    return InputsLieAlike(arguments, bytes) &&
           LieAlike(first, arguments, bytes);
  };
  arguments.is_aligned = Remainder(first, size) == 0 && lie_alike(size);
  if (!arguments.is_aligned || !lie_alike(kPackBytes)) return arguments;
  arguments.head_elements = std::min(BytesToMultiple(first, kPackBytes) / size,
                                     arguments.num_elements);
  arguments.num_packs =
      (arguments.num_elements - arguments.head_elements) / (kPackBytes / size);
  return arguments;
}

CopyArguments PlanCopy(const GpuCopy& copy) {
  CopyArguments arguments = {.input = static_cast<const uint8_t*>(copy.input),
                             .num_bytes = copy.num_bytes};
  arguments.num_outputs = Fill(copy.outputs, arguments.outputs);
  for (const size_t bytes : {kPackBytes, size_t{4}, size_t{1}}) {
    if (!LieAlike(arguments.input, arguments, bytes)) continue;
    arguments.word_bytes = bytes;
    break;
  }
  arguments.head_bytes =
      std::min(BytesToMultiple(arguments.input, arguments.word_bytes),
               arguments.num_bytes);
  arguments.num_words =
      (arguments.num_bytes - arguments.head_bytes) / arguments.word_bytes;
  return arguments;
}

int MostBlocks(int num_multiprocessors, int blocks_per_multiprocessor) {
  return std::max(1, num_multiprocessors * blocks_per_multiprocessor);
}

unsigned NumBlocks(size_t num_items, int most) {
  const size_t wanted = RoundUpQuotient(num_items, kThreadsPerBlock);
  return static_cast<unsigned>(
      std::clamp(wanted, size_t{1}, static_cast<size_t>(std::max(most, 1))));
}

size_t NumItems(const ReduceArguments& arguments, size_t pack_elements) {
  return std::max(arguments.num_packs,
                  arguments.num_elements - arguments.num_packs * pack_elements);
}

size_t NumItems(const CopyArguments& arguments) {
  return std::max(
      arguments.num_words,
      arguments.num_bytes - arguments.num_words * arguments.word_bytes);
}

}  // namespace tutti::gpu
