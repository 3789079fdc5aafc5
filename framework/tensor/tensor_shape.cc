#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

std::string DimsToString(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ","), "]");
}

}  // namespace

absl::StatusOr<TensorShape> TensorShape::Create(
    absl::Span<const int64_t> dims) {
  TensorShape shape;
  bool overflows = false;
  for (int64_t dim : dims) {
    if (dim < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", DimsToString(dims), " has a negative dimension"));
    }
    if (dim == 0) continue;
    overflows |=
        __builtin_mul_overflow(shape.num_elements_, dim, &shape.num_elements_);
  }
  if (overflows) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", DimsToString(dims),
                     " has more elements than 64 bits can count"));
  }
  const bool is_empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  if (is_empty) shape.num_elements_ = 0;
  shape.SetDims(dims);
  return shape;
}

TensorShape TensorShape::Vector(int64_t num_elements) {
  TensorShape shape;
  shape.num_elements_ = std::max<int64_t>(num_elements, 0);
  shape.SetDims({&shape.num_elements_, 1});
  return shape;
}

absl::StatusOr<TensorShape> TensorShape::WithFirstDim(int64_t size) const {
  if (num_dims() == 0) {
    return absl::InvalidArgumentError("a scalar has no first dimension");
  }
  absl::InlinedVector<int64_t, 4> changed(dims().begin(), dims().end());
  changed[0] = size;
  return Create(changed);
}

std::string TensorShape::ToString() const { return DimsToString(dims()); }

void TensorShape::SetDims(absl::Span<const int64_t> dims) {
  if (dims.size() > few_.size()) {
    many_ =
        std::make_shared<const std::vector<int64_t>>(dims.begin(), dims.end());
    return;
  }
  std::copy(dims.begin(), dims.end(), few_.begin());
  num_few_ = dims.size();
}

}  // namespace tutti
