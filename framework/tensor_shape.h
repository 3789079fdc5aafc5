#ifndef TUTTI_FRAMEWORK_TENSOR_SHAPE_H_
#define TUTTI_FRAMEWORK_TENSOR_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tutti {

// The sizes of a tensor's dimensions, outermost first. A value; the product of
// all that are not 0 is known to fit into an int64_t.
class TensorShape {
 public:
  // A scalar: no dimensions, one element.
  TensorShape() = default;

  // Out of line: inlined, GCC 12 takes the unused part of the vector's storage
  // for a read of uninitialised memory, and warns in the caller's code.
  TensorShape(const TensorShape& other);
  TensorShape(TensorShape&& other) noexcept;
  TensorShape& operator=(const TensorShape& other);
  TensorShape& operator=(TensorShape&& other) noexcept;
  ~TensorShape() = default;

  // Errors: INVALID_ARGUMENT for a negative size or more than 2^63-1 elements,
  // where a size of 0 counts as 1: so that the size of a row always fits, too.
  static absl::StatusOr<TensorShape> Create(absl::Span<const int64_t> dims);

  // One dimension. Negative counts as 0.
  static TensorShape Vector(int64_t num_elements);

  int num_dims() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[i]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  int64_t num_elements() const { return num_elements_; }

  // This shape with another outermost size. Errors: INVALID_ARGUMENT for a
  // scalar, and as Create.
  absl::StatusOr<TensorShape> WithFirstDim(int64_t size) const;

  std::string ToString() const;  // "[2,3]"

  friend bool operator==(const TensorShape& a, const TensorShape& b) {
    return a.dims_ == b.dims_;
  }

 private:
  absl::InlinedVector<int64_t, 4> dims_;
  int64_t num_elements_ = 1;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_TENSOR_SHAPE_H_
