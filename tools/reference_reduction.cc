#include "tools/reference_reduction.h"

#include <algorithm>
#include <string>

#include "tools/element.h"

namespace tutti {
namespace {

double Combine(const std::string& reduction, double a, double b) {
  if (reduction == "prod") return a * b;
  if (reduction == "min") return std::min(a, b);
  if (reduction == "max") return std::max(a, b);
  return a + b;
}

int64_t Combine(const std::string& reduction, int64_t a, int64_t b) {
  if (reduction == "min") return std::min(a, b);
  if (reduction == "max") return std::max(a, b);
  const auto x = static_cast<uint64_t>(a);  // Wraps around.
  const auto y = static_cast<uint64_t>(b);
  if (reduction == "prod") return static_cast<int64_t>(x * y);
  if (reduction == "band") return a & b;
  if (reduction == "bor") return a | b;
  if (reduction == "bxor") return a ^ b;
  return static_cast<int64_t>(x + y);
}

// `values` combined with the elements that `load` finds.
template <typename Value, typename Load>
void AddTo(std::vector<Value>* values, bool is_first,
           const std::string& reduction, const Load& load) {
  for (size_t i = 0; i < values->size(); ++i) {
    Value& value = (*values)[i];
    value = is_first ? load(i) : Combine(reduction, value, load(i));
  }
}

}  // namespace

ReferenceReduction::ReferenceReduction(const CollectiveSpec& spec, DType dtype,
                                       int64_t num_elements)
    : spec_(spec), dtype_(dtype), num_elements_(num_elements) {
  if (IsFloating(dtype)) {
    floating_.resize(num_elements);
  } else {
    integers_.resize(num_elements);
  }
}

void ReferenceReduction::Add(absl::Span<const std::byte> elements) {
  const size_t size = SizeOf(dtype_);
  const bool is_first = num_added_ == 0;
  AddTo(&floating_, is_first, spec_.reduction,
        [&](size_t i) { return LoadFloating(dtype_, &elements[i * size]); });
  AddTo(&integers_, is_first, spec_.reduction,
        [&](size_t i) { return LoadInteger(dtype_, &elements[i * size]); });
  ++num_added_;
}

std::vector<std::byte> ReferenceReduction::Result() const {
  const size_t size = SizeOf(dtype_);
  const bool divides = spec_.reduction == "avg";
  std::vector<std::byte> result(num_elements_ * size);
  for (size_t i = 0; i < floating_.size(); ++i) {
    const double value = divides ? floating_[i] / num_added_ : floating_[i];
    StoreFloating(dtype_, value, &result[i * size]);
  }
  for (size_t i = 0; i < integers_.size(); ++i) {
    StoreInteger(dtype_, integers_[i], &result[i * size]);
    if (!divides) continue;
    // The sum as the dtype holds it, wrapped around.
    const int64_t sum = LoadInteger(dtype_, &result[i * size]);
    StoreInteger(dtype_, sum / num_added_, &result[i * size]);
  }
  return result;
}

}  // namespace tutti
