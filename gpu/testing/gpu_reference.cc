#include "gpu/testing/gpu_reference.h"

#include <algorithm>

#include "framework/reduce/reduction_reference_testing.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

std::vector<const uint8_t*> Pointers(const std::vector<Bytes>& buffers,
                                     size_t begin, size_t end) {
  std::vector<const uint8_t*> pointers;
  for (size_t i = begin; i < std::min(end, buffers.size()); ++i) {
    pointers.push_back(buffers[i].data());
  }
  return pointers;
}

}  // namespace

Bytes ReferenceReduceInPasses(const ReductionPair& pair,
                              const std::vector<Bytes>& inputs, size_t most,
                              int64_t divisor) {
  const size_t num_elements = inputs[0].size() / SizeOf(pair.dtype);
  const bool is_mean =
      IsInteger(pair.dtype) && divisor != 1 && pair.kind == ReductionKind::kSum;
  const int64_t last_divisor = IsFloating(pair.dtype) || is_mean ? divisor : 1;
  Bytes sum = inputs[0];
  if (is_mean) most = std::max<size_t>(inputs.size(), 2);
  size_t next = 1;
  do {
    auto pass = Pointers(inputs, next, next + most - 1);
    pass.insert(pass.begin(), sum.data());
    next += most - 1;
    ReferenceReduceMany(pair.kind, pair.dtype, pass, sum.data(), num_elements,
                        next < inputs.size() ? 1 : last_divisor);
  } while (next < inputs.size());
  if (divisor != last_divisor) {
    ReferenceDivideBy(pair.dtype, sum.data(), num_elements, divisor);
  }
  return sum;
}

Bytes ReferenceGpuLocalReduce(const ReductionPair& pair,
                              const std::vector<Bytes>& inputs,
                              bool is_average) {
  if (inputs.size() == 1 && !is_average) return inputs[0];
  const bool is_rounded = IsFloating(pair.dtype) && SizeOf(pair.dtype) <= 2;
  return ReferenceReduceInPasses(
      pair, inputs, is_rounded ? 8 : std::max<size_t>(inputs.size(), 2),
      is_average ? static_cast<int64_t>(inputs.size()) : 1);
}

}  // namespace tutti
