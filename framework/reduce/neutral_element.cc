#include "framework/reduce/neutral_element.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/tensor/small_floats.h"

namespace tutti {
namespace {

// Neutral elements of the first kinds, in their order: of those that reduce
// such elements. In 8 bits, infinity becomes the largest finite value.
template <typename Element>
auto NeutralElements() {
  if constexpr (std::is_integral_v<Element>) {
    using Limits = std::numeric_limits<Element>;
    return std::array{Element(0),  Element(1), Limits::max(), Limits::lowest(),
                      Element(-1), Element(0), Element(0)};
  } else if constexpr (FloatLimits<Element>::digits > 0) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return std::array{Encode<Element>(-0.0f), Encode<Element>(1.0f),
                      Encode<Element>(kInfinity), Encode<Element>(-kInfinity)};
  } else if constexpr (requires(Element complex) { complex.real(); }) {
    return std::array{Element(-0.0f, -0.0f), Element(1.0f)};
  } else {
    return std::array<Element, 0>();
  }
}

}  // namespace

absl::Status FillWithNeutral(ReductionKind kind, DType dtype, void* values,
                             int64_t num_elements) {
  RETURN_IF_ERROR(CheckSupported(kind, dtype));
  const bool is_filled = VisitDType(dtype, [&]<typename Element>(Element) {
    const auto neutral = NeutralElements<Element>();
    const auto index = static_cast<size_t>(kind);
    if (index >= neutral.size()) return false;
    std::fill_n(static_cast<Element*>(values), num_elements, neutral[index]);
    return true;
  });
  if (is_filled) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("reduction \"", Name(kind), "\" of ", Name(dtype),
                   " elements has no neutral element"));
}

}  // namespace tutti
