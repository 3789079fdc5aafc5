#ifndef TUTTI_FRAMEWORK_MERGE_OP_H_
#define TUTTI_FRAMEWORK_MERGE_OP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/dtype.h"
#include "framework/reduction_kind.h"

namespace tutti {

// A merge op of the caller: any associative function. The name is what members
// compare, so one name must mean one function everywhere.
struct CustomMergeOp {
  std::string name;

  // If false, only implementations that reduce in rank order may run it.
  bool commutative = false;

  // into[i] = left[i] (+) right[i] for `num_elements` elements; `into` is
  // `left`, `right` or apart from both. Thread-safe.
  //
  // The pointers need not be aligned, not even to an element: they are where a
  // member's tensor is, and Tensor::Wrap takes any memory. Read and write
  // elements with std::memcpy unless all your tensors are aligned.
  std::function<absl::Status(DType dtype, const void* left, const void* right,
                             void* into, int64_t num_elements)>
      apply;
};

// How two members' elements are combined. A value.
class MergeOp {
 public:
  MergeOp() = default;                          // Sum.
  MergeOp(ReductionKind kind) : kind_(kind) {}  // NOLINT: a kind is a merge op.

  // Errors: INVALID_ARGUMENT without a name or a function, or with the name of
  // a built-in kind.
  static absl::StatusOr<MergeOp> Custom(CustomMergeOp op);

  absl::string_view name() const;
  bool is_custom() const { return custom_ != nullptr; }
  ReductionKind kind() const { return kind_; }  // REQUIRES: !is_custom().
  bool commutative() const {
    return custom_ == nullptr || custom_->commutative;
  }

  // Errors: INVALID_ARGUMENT if elements of `dtype` cannot be combined so.
  absl::Status CheckSupports(DType dtype) const;

  // into = left (+) right, as framework/reduction.h says. Errors: those of a
  // custom function, of whose op they say the name; INTERNAL if it throws.
  absl::Status Apply(DType dtype, const void* left, const void* right,
                     void* into, int64_t num_elements) const;

  // By name: two custom functions of one name count as the same.
  friend bool operator==(const MergeOp& a, const MergeOp& b) {
    return a.kind_ == b.kind_ && a.name() == b.name();
  }

 private:
  ReductionKind kind_ = ReductionKind::kSum;
  std::shared_ptr<const CustomMergeOp> custom_;
};

// A final op of the caller; the name is what members compare.
struct CustomFinalOp {
  std::string name;

  // Changes `num_elements` values in place. Thread-safe. As in CustomMergeOp,
  // `values` need not be aligned.
  std::function<absl::Status(DType dtype, void* values, int64_t num_elements,
                             int group_size)>
      apply;
};

// What happens once to each element of a reduction's result. A value.
class FinalOp {
 public:
  FinalOp() = default;  // Identity.

  // Division by the size of the group: with a sum, the average.
  static FinalOp DivideByGroupSize();

  // Errors: INVALID_ARGUMENT without a name or a function, or with the name of
  // a built-in one.
  static absl::StatusOr<FinalOp> Custom(CustomFinalOp op);

  absl::string_view name() const;
  bool is_identity() const { return kind_ == Kind::kIdentity; }
  bool is_custom() const { return custom_ != nullptr; }

  // Errors: as MergeOp::Apply.
  absl::Status Apply(DType dtype, void* values, int64_t num_elements,
                     int group_size) const;

  friend bool operator==(const FinalOp& a, const FinalOp& b) {
    return a.kind_ == b.kind_ && a.name() == b.name();
  }

 private:
  enum class Kind : uint8_t { kIdentity, kDivideByGroupSize, kCustom };

  Kind kind_ = Kind::kIdentity;
  std::shared_ptr<const CustomFinalOp> custom_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_MERGE_OP_H_
