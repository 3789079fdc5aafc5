#ifndef TUTTI_FRAMEWORK_TENSOR_H_
#define TUTTI_FRAMEWORK_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/dtype.h"
#include "framework/tensor_shape.h"

namespace tutti {

// A dtype, a shape and a reference-counted buffer, C order. Copies and slices
// share the buffer; it is freed with the last of them. Copying is thread-safe
// as for shared_ptr; access to the elements is the caller's to order.
class Tensor {
 public:
  // Runs once, when the last tensor that shares the buffer is gone, on the
  // thread where it went.
  using Deleter = absl::AnyInvocable<void() &&>;

  // No buffer; is_set() is false.
  Tensor() = default;

  // Uninitialised host memory, aligned to kAlignmentBytes. Errors:
  // INVALID_ARGUMENT if shape x size does not fit 64 bits; RESOURCE_EXHAUSTED
  // if there is not so much memory.
  static absl::StatusOr<Tensor> Allocate(DType dtype, const TensorShape& shape);

  // Adopts the caller's memory without copying; any alignment. `deleter` may be
  // null; it runs exactly once, also if Wrap fails. Errors: INVALID_ARGUMENT if
  // `data` is null and the shape is not empty, or if shape x size overflows.
  static absl::StatusOr<Tensor> Wrap(DType dtype, const TensorShape& shape,
                                     void* data, Deleter deleter = nullptr);

  bool is_set() const { return is_set_; }
  DType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t size_bytes() const {  // 0 if not set.
    return is_set_ ? static_cast<size_t>(num_elements()) * SizeOf(dtype_) : 0;
  }

  const std::byte* data() const { return data_; }
  std::byte* mutable_data() { return data_; }

  // Rows [begin, end) of the first dimension; shares the buffer. Errors:
  // INVALID_ARGUMENT for a scalar or a range outside the dimension.
  absl::StatusOr<Tensor> Slice(int64_t begin, int64_t end) const;

  // The same elements under another shape; shares the buffer. Errors:
  // INVALID_ARGUMENT if the number of elements differs or there is no buffer.
  absl::StatusOr<Tensor> Reshaped(const TensorShape& shape) const;

  static constexpr size_t kAlignmentBytes = 64;

 private:
  Tensor(DType dtype, TensorShape shape, std::shared_ptr<void> owner,
         std::byte* data);

  bool is_set_ = false;
  DType dtype_ = DType::kFloat32;
  TensorShape shape_;
  std::shared_ptr<void> owner_;  // Null where nobody waits for the end.
  std::byte* data_ = nullptr;
};

// Bytes of `shape` with elements of `dtype`. Errors: INVALID_ARGUMENT if they
// do not fit 64 bits.
absl::StatusOr<int64_t> SizeInBytes(DType dtype, const TensorShape& shape);

// How two stretches of memory lie to each other.
enum class Overlap { kNone, kSame, kPartial };
Overlap OverlapOf(const Tensor& a, const Tensor& b);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_TENSOR_H_
