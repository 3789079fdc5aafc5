#include "framework/reduce/neutral_element.h"

#include <algorithm>
#include <complex>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/tensor/small_floats.h"

namespace tutti {
namespace {

template <typename Element>
std::optional<Element> NeutralInteger(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
    case ReductionKind::kBor:
    case ReductionKind::kBxor:
      return static_cast<Element>(0);
    case ReductionKind::kProd:
      return static_cast<Element>(1);
    case ReductionKind::kMin:
      return std::numeric_limits<Element>::max();
    case ReductionKind::kMax:
      return std::numeric_limits<Element>::lowest();
    case ReductionKind::kBand:
      return static_cast<Element>(-1);
    default:
      return std::nullopt;
  }
}

// In 8 bits, infinity becomes the largest finite value.
template <typename Element>
std::optional<Element> NeutralFloat(ReductionKind kind) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (kind) {
    case ReductionKind::kSum:
      return Encode<Element>(-0.0f);
    case ReductionKind::kProd:
      return Encode<Element>(1.0f);
    case ReductionKind::kMin:
      return Encode<Element>(kInfinity);
    case ReductionKind::kMax:
      return Encode<Element>(-kInfinity);
    default:
      return std::nullopt;
  }
}

template <typename Element>
std::optional<Element> Neutral(ReductionKind kind) {
  if constexpr (std::is_integral_v<Element>) {
    return NeutralInteger<Element>(kind);
  } else if constexpr (FloatLimits<Element>::digits > 0) {
    return NeutralFloat<Element>(kind);
  } else if constexpr (std::is_same_v<Element, std::complex<float>> ||
                       std::is_same_v<Element, std::complex<double>>) {
    if (kind == ReductionKind::kSum) return Element(-0.0f, -0.0f);
    if (kind == ReductionKind::kProd) return Element(1.0f);
  }
  return std::nullopt;
}

}  // namespace

absl::Status FillWithNeutral(ReductionKind kind, DType dtype, void* values,
                             int64_t num_elements) {
  RETURN_IF_ERROR(CheckSupported(kind, dtype));
  const bool is_filled = VisitDType(dtype, [&]<typename Element>(Element) {
    const std::optional<Element> neutral = Neutral<Element>(kind);
    if (neutral.has_value()) {
      std::fill_n(static_cast<Element*>(values), num_elements, *neutral);
    }
    return neutral.has_value();
  });
  if (is_filled) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("reduction \"", Name(kind), "\" of ", Name(dtype),
                   " elements has no neutral element"));
}

}  // namespace tutti
