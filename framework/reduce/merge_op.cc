#include <exception>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

constexpr absl::string_view kIdentityName = "identity";
constexpr absl::string_view kDivideName = "divide_by_group_size";

// Runs a caller's function. Adds the op's name to errors; turns exceptions into
// INTERNAL.
template <typename Function>
absl::Status Guarded(absl::string_view name, Function&& function) {
  try {
    const absl::Status status = function();
    if (status.ok()) return status;
    return absl::Status(
        status.code(),
        absl::StrCat("op ", name, " failed: ", status.message()));
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("op ", name, " threw: ", error.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat("op ", name, " threw"));
  }
}

absl::Status CheckNew(absl::string_view what, absl::string_view name,
                      bool is_taken, bool has_function) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a custom ", what, " needs a name"));
  }
  if (is_taken) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is the name of a built-in ", what));
  }
  if (!has_function) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", name, " has no function"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MergeOp> MergeOp::Custom(CustomMergeOp op) {
  RETURN_IF_ERROR(CheckNew("merge op", op.name,
                           ParseReductionKind(op.name).ok(),
                           op.apply != nullptr));
  MergeOp merge_op;
  merge_op.custom_ = std::make_shared<const CustomMergeOp>(std::move(op));
  return merge_op;
}

absl::string_view MergeOp::name() const {
  return custom_ == nullptr ? Name(kind_) : absl::string_view(custom_->name);
}

absl::Status MergeOp::CheckSupports(DType dtype) const {
  if (custom_ == nullptr) return CheckSupported(kind_, dtype);
  return IsValid(dtype) ? absl::OkStatus() : InvalidDType(dtype);
}

absl::Status MergeOp::Apply(DType dtype, const void* left, const void* right,
                            void* into, int64_t num_elements) const {
  if (custom_ == nullptr) {
    Reduce(kind_, dtype, left, right, into, static_cast<size_t>(num_elements));
    return absl::OkStatus();
  }
  return Guarded(custom_->name, [&] {
    return custom_->apply(dtype, left, right, into, num_elements);
  });
}

absl::Status MergeOp::ApplyOnGpu(DType dtype, const void* left,
                                 const void* right, void* into,
                                 int64_t num_elements, void* stream) const {
  return Guarded(custom_->name, [&] {
    return custom_->apply_on_gpu(dtype, left, right, into, num_elements,
                                 stream);
  });
}

FinalOp FinalOp::DivideByGroupSize() {
  FinalOp final_op;
  final_op.kind_ = Kind::kDivideByGroupSize;
  return final_op;
}

absl::StatusOr<FinalOp> FinalOp::Custom(CustomFinalOp op) {
  const bool is_taken = op.name == kIdentityName || op.name == kDivideName;
  RETURN_IF_ERROR(CheckNew("final op", op.name, is_taken, op.apply != nullptr));
  FinalOp final_op;
  final_op.kind_ = Kind::kCustom;
  final_op.custom_ = std::make_shared<const CustomFinalOp>(std::move(op));
  return final_op;
}

absl::string_view FinalOp::name() const {
  switch (kind_) {
    case Kind::kIdentity:
      return kIdentityName;
    case Kind::kDivideByGroupSize:
      return kDivideName;
    case Kind::kCustom:
      return custom_->name;
  }
  return "unknown";
}

bool IsMeanOfIntegers(DType dtype, const MergeOp& merge_op,
                      const FinalOp& final_op) {
  return IsInteger(dtype) && merge_op == MergeOp(ReductionKind::kSum) &&
         final_op == FinalOp::DivideByGroupSize();
}

absl::Status FinalOp::Apply(DType dtype, void* values, int64_t num_elements,
                            int group_size) const {
  switch (kind_) {
    case Kind::kIdentity:
      return absl::OkStatus();
    case Kind::kDivideByGroupSize:
      DivideBy(dtype, values, static_cast<size_t>(num_elements), group_size);
      return absl::OkStatus();
    case Kind::kCustom:
      return Guarded(custom_->name, [&] {
        return custom_->apply(dtype, values, num_elements, group_size);
      });
  }
  return absl::InternalError("unknown final op");
}

absl::Status FinalOp::ApplyOnGpu(DType dtype, void* values,
                                 int64_t num_elements, int group_size,
                                 void* stream) const {
  return Guarded(custom_->name, [&] {
    return custom_->apply_on_gpu(dtype, values, num_elements, group_size,
                                 stream);
  });
}

}  // namespace tutti
