#include "tools/request/reference_reduction.h"

#include <algorithm>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "tools/request/element.h"

namespace tutti {
namespace {

// Chosen once instead of once per element. Integers are combined as unsigned
// ones where they may wrap around.
template <typename Value>
auto CombineOf(absl::string_view reduction) -> Value (*)(Value, Value) {
  if (reduction == "min")
    return [](Value a, Value b) { return std::min(a, b); };
  if (reduction == "max")
    return [](Value a, Value b) { return std::max(a, b); };
  if constexpr (std::is_integral_v<Value>) {
    using Bits = uint64_t;
    if (reduction == "prod") {
      return [](Value a, Value b) {
        return static_cast<Value>(Bits(a) * Bits(b));
      };
    }
    if (reduction == "band") return [](Value a, Value b) { return a & b; };
    if (reduction == "bor") return [](Value a, Value b) { return a | b; };
    if (reduction == "bxor") return [](Value a, Value b) { return a ^ b; };
    return
        [](Value a, Value b) { return static_cast<Value>(Bits(a) + Bits(b)); };
  } else {
    if (reduction == "prod") return [](Value a, Value b) { return a * b; };
    return [](Value a, Value b) { return a + b; };
  }
}

}  // namespace

ReferenceReduction::ReferenceReduction(const CollectiveSpec& spec, DType dtype,
                                       int64_t num_elements)
    : spec_(spec), dtype_(dtype) {
  VisitDType(dtype, [&]<typename Element>(Element) {
    values_ = std::vector<ValueOf<Element>>(num_elements);
  });
}

void ReferenceReduction::Add(absl::Span<const std::byte> elements) {
  const bool is_first = num_added_++ == 0;
  std::visit(
      [&]<typename Value>(std::vector<Value>& values) {
        const auto combine = CombineOf<Value>(spec_.reduction);
        const std::byte* at = elements.data();
        for (Value& value : values) {
          const auto added = LoadValue<Value>(dtype_, at);
          value = is_first ? added : combine(value, added);
          at += SizeOf(dtype_);
        }
      },
      values_);
}

std::vector<std::byte> ReferenceReduction::Result() const {
  const bool is_average = spec_.reduction == "avg";
  return std::visit(
      [&]<typename Value>(const std::vector<Value>& values) {
        std::vector<std::byte> result(values.size() * SizeOf(dtype_));
        std::byte* at = result.data();
        const auto divisor = static_cast<Value>(is_average ? num_added_ : 1);
        for (Value value : values) {
          if constexpr (std::is_floating_point_v<Value>) {
            StoreFloating(dtype_, value / divisor, at);
          } else {
            // The sum as the dtype holds it, wrapped around.
            StoreInteger(dtype_, static_cast<int64_t>(value), at);
            value = LoadValue<Value>(dtype_, at) / divisor;
            StoreInteger(dtype_, static_cast<int64_t>(value), at);
          }
          at += SizeOf(dtype_);
        }
        return result;
      },
      values_);
}

}  // namespace tutti
