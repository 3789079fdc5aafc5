#include "named_tensors/tensor_preparation.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "named_tensors/coordinator_codec.h"
#include "named_tensors/tensor_request.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Checks that the tensors that the rank needs are there.
absl::Status CheckIsThere(const PendingTensor& pending, int task) {
  const auto& [request, tensor, done] = pending;
  const bool has_output = tensor.output != nullptr;
  const bool has_shape =
      tensor.input.is_set() || (has_output && tensor.output->is_set() &&
                                !HasInput(request.type, task, request.root));
  if (has_output && has_shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(request.name), ": there is no ",
                   has_shape ? "place for the output" : "input"));
}

// Completes the request from the tensors. REQUIRES: they are there.
void Describe(PendingTensor& pending) {
  auto& [request, tensor, done] = pending;
  const Tensor& shaped = tensor.input.is_set() ? tensor.input : *tensor.output;
  request.dtype = shaped.dtype();
  request.shape = shaped.shape();
  if (Reduces(request.type)) {
    request.merge_op = std::string(tensor.merge_op.name());
    if (!tensor.final_op.is_identity()) {
      request.final_op = std::string(tensor.final_op.name());
    }
  }
  if (ExchangesBlocks(request.type)) request.send_rows = tensor.send_rows;
}

// Tensor in the shape of the output, in the memory that input and output may
// share.
absl::StatusOr<Tensor> SharedPlace(const PendingTensor& pending,
                                   const RankPlace& place) {
  const auto& [request, tensor, done] = pending;
  if (!tensor.input.is_set()) return *tensor.output;
  if (!OutputIsOwnBlock(request.type)) return tensor.input;
  const auto rows = BalancedRows(request.shape.dim(0), place.num_ranks);
  const int64_t begin =
      std::accumulate(rows.begin(), rows.begin() + place.rank, int64_t{0});
  return tensor.input.Slice(begin,
                            begin + rows[static_cast<size_t>(place.rank)]);
}

absl::Status CheckOutput(const PendingTensor& pending, const Tensor& place) {
  const Tensor& output = *pending.tensor.output;
  if (output.dtype() != place.dtype() || !(output.shape() == place.shape())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(pending.request.name), ": the output is ",
        Name(output.dtype()), output.shape().ToString(), ", wanted ",
        Name(place.dtype()), place.shape().ToString()));
  }
  if (OverlapOf(place, output) == Overlap::kSame ||
      OverlapOf(pending.tensor.input, output) == Overlap::kNone) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(pending.request.name),
                   ": input and output overlap, but are not the same"));
}

}  // namespace

absl::Status PrepareTensor(PendingTensor& pending, Device& device,
                           const RankPlace& place) {
  RETURN_IF_ERROR(CheckIsThere(pending, place.task));
  Describe(pending);
  const TensorRequest& request = pending.request;
  NamedTensor& tensor = pending.tensor;
  RETURN_IF_ERROR(Validate(request));
  if (Reduces(request.type)) {
    RETURN_IF_ERROR(tensor.merge_op.CheckSupports(request.dtype));
  }
  const bool has_no_rows =  // Rank zero tells all ranks.
      HasRankBlocks(request.type) && request.shape.num_dims() == 0;
  if (IsSizedByAll(request.type) || has_no_rows) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Tensor shared, SharedPlace(pending, place));
  if (tensor.output->is_set()) return CheckOutput(pending, shared);
  ASSIGN_OR_RETURN(*tensor.output,
                   device.Allocate(request.dtype, shared.shape()));
  return absl::OkStatus();
}

absl::StatusOr<PendingTensorPtr> MakeStandIn(
    const proto::TensorRequest& message, int task) {
  const auto pending = std::make_shared<PendingTensor>();
  ASSIGN_OR_RETURN(pending->request,
                   DecodeTensorRequest("of the others", message));
  TensorRequest& request = pending->request;
  const CollectiveType type = request.type;
  const bool is_needed =
      HasRoot(type) ? request.root == task
                    : HasRankBlocks(type) && (!InputIsOwnBlock(type) ||
                                              request.shape.num_dims() == 0 ||
                                              request.shape.dim(0) > 0);
  if (is_needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("decision.stand_in needs rank ", task, ", which joined"));
  }
  if (Reduces(type)) {
    ASSIGN_OR_RETURN(const BuiltInOps ops, BuiltInOpsOf(request));
    pending->tensor.merge_op = ops.merge_op;
    pending->tensor.final_op = ops.final_op;
    RETURN_IF_ERROR(ops.merge_op.CheckSupports(request.dtype));
  }
  request.name.clear();
  auto output = std::make_unique<Tensor>();
  pending->tensor.output = output.get();
  pending->done = [output = std::move(output)](const absl::Status&) {};
  return pending;
}

}  // namespace tutti
