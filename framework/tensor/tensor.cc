#include "tutti/tensor.h"

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

// Runs a deleter when the last owner is destroyed.
class Adopted {
 public:
  explicit Adopted(Tensor::Deleter deleter) : deleter_(std::move(deleter)) {}
  ~Adopted() {
    if (deleter_) std::move(deleter_)();
  }
  Adopted(const Adopted&) = delete;
  Adopted& operator=(const Adopted&) = delete;

 private:
  Tensor::Deleter deleter_;
};

}  // namespace

absl::StatusOr<int64_t> SizeInBytes(DType dtype, const TensorShape& shape) {
  if (!IsValid(dtype)) return InvalidDType(dtype);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(),
                             static_cast<int64_t>(SizeOf(dtype)), &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(dtype), shape.ToString(),
                     " has more bytes than 64 bits can count"));
  }
  return bytes;
}

Tensor::Tensor(DType dtype, TensorShape shape, std::shared_ptr<void> owner,
               std::byte* data)
    : is_set_(true),
      dtype_(dtype),
      shape_(std::move(shape)),
      owner_(std::move(owner)),
      data_(data) {}

absl::StatusOr<Tensor> Tensor::Allocate(DType dtype, const TensorShape& shape) {
  ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(dtype, shape));
  void* data = ::operator new(static_cast<size_t>(bytes),
                              std::align_val_t(kAlignmentBytes), std::nothrow);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", Name(dtype), shape.ToString(), ", ",
                     bytes, " bytes"));
  }
  std::shared_ptr<void> owner(data, [](void* memory) {
    ::operator delete(memory, std::align_val_t(kAlignmentBytes));
  });
  return Tensor(dtype, shape, std::move(owner), static_cast<std::byte*>(data));
}

absl::StatusOr<Tensor> Tensor::Wrap(DType dtype, const TensorShape& shape,
                                    void* data, Deleter deleter) {
  std::shared_ptr<void> owner;
  if (deleter) owner = std::make_shared<Adopted>(std::move(deleter));
  ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(dtype, shape));
  if (data == nullptr && bytes > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a null buffer was given for ", Name(dtype),
                     shape.ToString(), ", ", bytes, " bytes"));
  }
  return Tensor(dtype, shape, std::move(owner), static_cast<std::byte*>(data));
}

absl::StatusOr<Tensor> Tensor::Slice(int64_t begin, int64_t end) const {
  if (shape_.num_dims() == 0) {
    return absl::InvalidArgumentError("a scalar cannot be sliced");
  }
  if (begin < 0 || begin > end || end > shape_.dim(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice [", begin, ", ", end, ") is not within ",
                     shape_.ToString(), "'s first dimension"));
  }
  ASSIGN_OR_RETURN(const TensorShape shape, shape_.WithFirstDim(end - begin));
  const int64_t row_bytes =
      shape_.dim(0) == 0 ? 0
                         : static_cast<int64_t>(size_bytes()) / shape_.dim(0);
  std::byte* data = data_ == nullptr ? nullptr : data_ + begin * row_bytes;
  return Tensor(dtype_, shape, owner_, data);
}

absl::StatusOr<Tensor> Tensor::Reshaped(const TensorShape& shape) const {
  if (!is_set_) {
    return absl::InvalidArgumentError(
        "a tensor that is not set cannot be reshaped");
  }
  if (shape.num_elements() != num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reshape ", shape_.ToString(), " (", num_elements(),
                     " elements) to ", shape.ToString(), " (",
                     shape.num_elements(), " elements)"));
  }
  return Tensor(dtype_, shape, owner_, data_);
}

Overlap OverlapOf(const Tensor& a, const Tensor& b) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<uintptr_t>(b.data());
  const uintptr_t a_end = a_begin + a.size_bytes();
  const uintptr_t b_end = b_begin + b.size_bytes();
  if (a_begin == a_end || b_begin == b_end) return Overlap::kNone;
  if (a_begin == b_begin && a_end == b_end) return Overlap::kSame;
  return a_begin < b_end && b_begin < a_end ? Overlap::kPartial
                                            : Overlap::kNone;
}

}  // namespace tutti
