#include "tools/request/reference_reduction.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "tools/request/element.h"

namespace tutti {
namespace {

double Sum(double a, double b) { return a + b; }
double Product(double a, double b) { return a * b; }

// Adds in uint64_t, which wraps around.
int64_t WrappedSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}
int64_t WrappedProduct(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}

template <typename Value>
Value Smaller(Value a, Value b) {
  return std::min(a, b);
}

template <typename Value>
Value Larger(Value a, Value b) {
  return std::max(a, b);
}

double (*FloatingCombine(absl::string_view reduction))(double, double) {
  if (reduction == "prod") return Product;
  if (reduction == "min") return Smaller<double>;
  if (reduction == "max") return Larger<double>;
  return Sum;
}

int64_t (*IntegerCombine(absl::string_view reduction))(int64_t, int64_t) {
  if (reduction == "prod") return WrappedProduct;
  if (reduction == "min") return Smaller<int64_t>;
  if (reduction == "max") return Larger<int64_t>;
  if (reduction == "band") return [](int64_t a, int64_t b) { return a & b; };
  if (reduction == "bor") return [](int64_t a, int64_t b) { return a | b; };
  if (reduction == "bxor") return [](int64_t a, int64_t b) { return a ^ b; };
  return WrappedSum;
}

// Combines each of `values` with the element that `load` returns.
template <typename Value, typename Load>
void AddTo(std::vector<Value>* values, bool is_first,
           Value (*combine)(Value, Value), const Load& load) {
  for (size_t i = 0; i < values->size(); ++i) {
    Value& value = (*values)[i];
    value = is_first ? load(i) : combine(value, load(i));
  }
}

}  // namespace

ReferenceReduction::ReferenceReduction(const CollectiveSpec& spec, DType dtype,
                                       int64_t num_elements)
    : combine_floating_(FloatingCombine(spec.reduction)),
      combine_integers_(IntegerCombine(spec.reduction)),
      is_average_(spec.reduction == "avg"),
      dtype_(dtype),
      num_elements_(num_elements) {
  if (IsFloating(dtype)) {
    floating_.resize(num_elements);
  } else {
    integers_.resize(num_elements);
  }
}

void ReferenceReduction::Add(absl::Span<const std::byte> elements) {
  const size_t size = SizeOf(dtype_);
  const bool is_first = num_added_ == 0;
  AddTo(&floating_, is_first, combine_floating_,
        [&](size_t i) { return LoadFloating(dtype_, &elements[i * size]); });
  AddTo(&integers_, is_first, combine_integers_,
        [&](size_t i) { return LoadInteger(dtype_, &elements[i * size]); });
  ++num_added_;
}

std::vector<std::byte> ReferenceReduction::Result() const {
  const size_t size = SizeOf(dtype_);
  std::vector<std::byte> result(num_elements_ * size);
  for (size_t i = 0; i < floating_.size(); ++i) {
    const double value = is_average_ ? floating_[i] / num_added_ : floating_[i];
    StoreFloating(dtype_, value, &result[i * size]);
  }
  for (size_t i = 0; i < integers_.size(); ++i) {
    StoreInteger(dtype_, integers_[i], &result[i * size]);
    if (!is_average_) continue;
    // The sum as the dtype holds it, wrapped around.
    const int64_t sum = LoadInteger(dtype_, &result[i * size]);
    StoreInteger(dtype_, sum / num_added_, &result[i * size]);
  }
  return result;
}

}  // namespace tutti
