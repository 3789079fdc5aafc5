#include "framework/reduce/complex_products.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tutti {
namespace {

template <typename T>
struct Parts {
  T real;
  T imaginary;
};

template <typename T>
Parts<T> PartsAt(const uint8_t* elements, size_t index) {
  Parts<T> parts;
  std::memcpy(&parts, elements + index * sizeof(parts), sizeof(parts));
  return parts;
}

template <typename T>
T WithCanonicalNaN(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

}  // namespace

template <typename T>
void MultiplyComplex(const uint8_t* left, const uint8_t* right, uint8_t* into,
                     size_t num_elements) {
  for (size_t i = 0; i < num_elements; ++i) {
    const auto a = PartsAt<T>(left, i);
    const auto b = PartsAt<T>(right, i);
    const Parts<T> product = {
        WithCanonicalNaN(a.real * b.real - a.imaginary * b.imaginary),
        WithCanonicalNaN(a.real * b.imaginary + a.imaginary * b.real)};
    std::memcpy(into + i * sizeof(product), &product, sizeof(product));
  }
}

template void MultiplyComplex<float>(const uint8_t*, const uint8_t*, uint8_t*,
                                     size_t);
template void MultiplyComplex<double>(const uint8_t*, const uint8_t*, uint8_t*,
                                      size_t);

}  // namespace tutti
