#ifndef TUTTI_FRAMEWORK_REDUCE_REDUCTION_TEST_DATA_H_
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_TEST_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tutti/reduction.h"
#include "tutti/tensor.h"

// Operands for tests of reductions.

namespace tutti {

// Elements as they lie in memory.
using Bytes = std::vector<uint8_t>;

struct ReductionPair {
  ReductionKind kind;
  DType dtype;
};

// All that CheckSupported() allows.
std::vector<ReductionPair> SupportedPairs();

// "sum of float16".
std::string Describe(const ReductionPair& pair);

// One element of `dtype`, given its bits.
Bytes Element(DType dtype, uint64_t bits);

// The bit that is the sign of `dtype`'s floats and signed integers.
uint64_t SignBit(DType dtype);

// Random bits, but for every second element, which is special: a zero, one,
// extreme, infinity, NaN, denormal, ... of either sign.
Bytes RandomElements(DType dtype, size_t num_elements, uint64_t seed);

// Two operands in which each special element meets each other.
std::pair<Bytes, Bytes> SpecialOperands(DType dtype);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_TEST_DATA_H_
