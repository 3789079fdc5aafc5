#ifndef TUTTI_FRAMEWORK_REDUCE_COMPLEX_PRODUCTS_H_
#define TUTTI_FRAMEWORK_REDUCE_COMPLEX_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

namespace tutti {

// Computes into[i] = left[i] * right[i] for complex numbers with parts of type
// T. Each product and each sum of parts is rounded; every NaN is canonical.
// `into` may be an operand.
//
// Compiled once, for the plainest CPU: GCC 12 fuses such products and sums for
// CPUs with FMA, even where told not to, and bits would depend on the CPU.
template <typename T>
void MultiplyComplex(const uint8_t* left, const uint8_t* right, uint8_t* into,
                     size_t num_elements);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCE_COMPLEX_PRODUCTS_H_
