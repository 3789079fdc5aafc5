#ifndef TUTTI_FRAMEWORK_TENSOR_SHAPE_H_
#define TUTTI_FRAMEWORK_TENSOR_SHAPE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tutti {

// The sizes of a tensor's dimensions, outermost first. A value; the product of
// all that are not 0 is known to fit into an int64_t.
class TensorShape {
 public:
  // A scalar: no dimensions, one element.
  TensorShape() = default;

  // Errors: INVALID_ARGUMENT for a negative size or more than 2^63-1 elements,
  // where a size of 0 counts as 1: so that the size of a row always fits, too.
  static absl::StatusOr<TensorShape> Create(absl::Span<const int64_t> dims);

  // One dimension. Negative counts as 0.
  static TensorShape Vector(int64_t num_elements);

  int num_dims() const { return static_cast<int>(dims().size()); }
  int64_t dim(int i) const { return dims()[static_cast<size_t>(i)]; }
  absl::Span<const int64_t> dims() const {
    return many_ == nullptr ? absl::MakeConstSpan(few_.data(), num_few_)
                            : absl::MakeConstSpan(*many_);
  }
  int64_t num_elements() const { return num_elements_; }

  // This shape with another outermost size. Errors: INVALID_ARGUMENT for a
  // scalar, and as Create.
  absl::StatusOr<TensorShape> WithFirstDim(int64_t size) const;

  std::string ToString() const;  // "[2,3]"

  friend bool operator==(const TensorShape& a, const TensorShape& b) {
    if (a.many_ == nullptr && b.many_ == nullptr) {
      // Unused are 0. All at once: in turn it would be a call of memcmp().
      int64_t differing = 0;
      for (size_t i = 0; i < a.few_.size(); ++i) {
        differing |= a.few_[i] ^ b.few_[i];
      }
      return a.num_few_ == b.num_few_ && differing == 0;
    }
    return std::ranges::equal(a.dims(), b.dims());
  }

 private:
  void SetDims(absl::Span<const int64_t> dims);

  // Every call of a collective copies shapes.
  std::array<int64_t, 4> few_ = {};
  size_t num_few_ = 0;
  std::shared_ptr<const std::vector<int64_t>> many_;  // Where there are more.
  int64_t num_elements_ = 1;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_TENSOR_SHAPE_H_
