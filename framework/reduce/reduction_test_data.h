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

// All pairs that CheckSupported() allows.
std::vector<ReductionPair> SupportedPairs();

// Returns "sum of float16".
std::string Describe(const ReductionPair& pair);

// Returns one element of `dtype` with these bits.
Bytes Element(DType dtype, uint64_t bits);

// Sign bit of floats and signed integers of `dtype`.
uint64_t SignBit(DType dtype);

// Random bits; every second element is special instead: a zero, one, extreme,
// infinity, NaN, denormal, ... of either sign.
Bytes RandomElements(DType dtype, size_t num_elements, uint64_t seed);

// Two operands in which each special element meets every other one.
std::pair<Bytes, Bytes> SpecialOperands(DType dtype);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_TEST_DATA_H_
