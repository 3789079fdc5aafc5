#include "tests/conformance/custom_ops.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tutti/tensor.h"

namespace tutti::conformance {
namespace {

template <typename Function>
MergeOp OnBytes(const char* name, bool commutative, Function function) {
  const auto apply = [function](DType dtype, const void* left,
                                const void* right, void* into,
                                int64_t num_elements) {
    const auto* const a = static_cast<const uint8_t*>(left);
    const auto* const b = static_cast<const uint8_t*>(right);
    const size_t num_bytes = static_cast<size_t>(num_elements) * SizeOf(dtype);
    std::transform(a, a + num_bytes, b, static_cast<uint8_t*>(into), function);
    return absl::OkStatus();
  };
  return *MergeOp::Custom(
      {.name = name, .commutative = commutative, .apply = apply});
}

}  // namespace

MergeOp SaturatingAdd() {
  return OnBytes("saturating_add", /*commutative=*/true,
                 [](uint8_t left, uint8_t right) {
                   return static_cast<uint8_t>(std::min(left + right, 255));
                 });
}

MergeOp Compose() {
  return OnBytes("compose", /*commutative=*/false,
                 [](uint8_t left, uint8_t right) {
                   const int factor = left / 16;
                   const int product = factor * (right / 16) % 16;
                   const int sum = (factor * (right % 16) + left % 16) % 16;
                   return static_cast<uint8_t>(product * 16 + sum);
                 });
}

FinalOp Stamp() {
  const auto apply = [](DType dtype, void* values, int64_t num_elements,
                        int group_size) {
    auto* const bytes = static_cast<uint8_t*>(values);
    const size_t num_bytes = static_cast<size_t>(num_elements) * SizeOf(dtype);
    std::for_each(bytes, bytes + num_bytes, [group_size](uint8_t& byte) {
      byte = static_cast<uint8_t>((byte ^ 0x5A) + group_size);
    });
    return absl::OkStatus();
  };
  return *FinalOp::Custom({.name = "stamp", .apply = apply});
}

}  // namespace tutti::conformance
