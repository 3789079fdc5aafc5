#ifndef TUTTI_TESTS_CONFORMANCE_ELEMENTS_H_
#define TUTTI_TESTS_CONFORMANCE_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/tensor.h"

namespace tutti::conformance {

using Bytes = std::vector<std::byte>;

// Required result of reductions of floating-point elements.
enum class Rounding : uint8_t {
  kAny,    // Magnitudes differ, so that sums tell the order of summation;
           // infinities, NaNs and denormals are rare.
  kNever,  // Sums and products of 16 are exact in any order.
};

// Random elements; the same seed gives the same ones. Integers have all values.
Bytes RandomElements(DType dtype, int64_t num_elements, Rounding rounding,
                     uint64_t seed);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_ELEMENTS_H_
