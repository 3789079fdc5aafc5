#include "named_tensors/tensor_request.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tutti/named_tensors.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr size_t kMaxShownBytes = 200;

}  // namespace

std::string Quoted(absl::string_view name) {
  if (name.size() <= kMaxShownBytes) {
    return absl::StrCat("\"", absl::CHexEscape(name), "\"");
  }
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, kMaxShownBytes)),
                      "...\" (", name.size(), " bytes)");
}

absl::Status Validate(const TensorRequest& request) {
  if (request.name.empty() || request.name.size() > kMaxTensorNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name of a tensor has 1 to ", kMaxTensorNameBytes,
                     " bytes; this one has ", request.name.size()));
  }
  if (!IsValid(request.dtype)) return InvalidDType(request.dtype);
  if (request.type != CollectiveType::kAllReduce &&
      request.type != CollectiveType::kAllGather) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(request.name),
                     ": all_reduce and all_gather go by name, not collective ",
                     static_cast<int>(request.type)));
  }
  if (request.shape.num_dims() > kMaxTensorDims) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(request.name), " has ", request.shape.num_dims(),
        " dimensions; at most ", kMaxTensorDims));
  }
  const bool reduces = request.type == CollectiveType::kAllReduce;
  if (reduces == request.merge_op.empty() ||
      request.merge_op.size() > kMaxMergeOpNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(request.name), ": the name of the merge op has ",
        request.merge_op.size(), " bytes; wanted ",
        reduces ? absl::StrCat("1 to ", kMaxMergeOpNameBytes) : "none"));
  }
  return SizeInBytes(request.dtype, request.shape).status();
}

}  // namespace tutti
