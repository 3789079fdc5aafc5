#include "framework/executor/call_args.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/request_fields.h"
#include "tutti/params.h"

namespace tutti {
namespace {

template <typename... Args>
absl::Status Invalid(const CollectiveParams& params, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(
      Name(params.instance->type), " (group ", params.group->key, ", instance ",
      params.instance->key, "), rank ", params.default_rank, " (",
      params.group->members[params.default_rank].device.name.ToString(),
      "): ", args...));
}

absl::Status CheckTensor(const CollectiveParams& params, absl::string_view what,
                         const Tensor& tensor, const TensorShape& shape) {
  const DType dtype = params.instance->dtype;
  if (tensor.dtype() == dtype && tensor.shape() == shape) {
    return absl::OkStatus();
  }
  return Invalid(params, "the ", what, " is ", Name(tensor.dtype()),
                 tensor.shape().ToString(), ", wanted ", Name(dtype),
                 shape.ToString());
}

// Returns where rank's block begins in the buffer of all blocks.
size_t BlockOffsetBytes(const CollectiveParams& params) {
  const CollInstanceParams& instance = *params.instance;
  const int size = params.group->size();
  const int rank = params.default_rank;
  int64_t rows = 0;
  if (instance.rows.empty()) {
    rows = BlockRows(instance, size, rank, rank) * rank;
  } else {
    for (int r = 0; r < rank; ++r) rows += BlockRows(instance, size, r, r);
  }
  return static_cast<size_t>(rows * RowElements(instance.shape)) *
         SizeOf(instance.dtype);
}

bool SendsWhatItReceives(const CollectiveParams& params) {
  const CollInstanceParams& instance = *params.instance;
  const int size = params.group->size();
  if (instance.rows.empty()) return true;
  for (int peer = 0; peer < size; ++peer) {
    if (BlockRows(instance, size, params.default_rank, peer) !=
        BlockRows(instance, size, peer, params.default_rank)) {
      return false;
    }
  }
  return true;
}

// Returns whether overlapping tensors lie where a run in place has them.
bool IsInPlace(const CollectiveParams& params, const Tensor& input,
               const Tensor& output) {
  const CollectiveType type = params.instance->type;
  if (InputIsOwnBlock(type)) {
    return input.data() == output.data() + BlockOffsetBytes(params);
  }
  if (OutputIsOwnBlock(type)) {
    return output.data() == input.data() + BlockOffsetBytes(params);
  }
  if (ExchangesBlocks(type) && !SendsWhatItReceives(params)) {
    return false;
  }
  return OverlapOf(input, output) == Overlap::kSame;
}

absl::Status PrepareTensors(const SettledFacts& settled, CollectiveArgs* args,
                            CollectiveContext* context) {
  context->input = std::move(args->input);
  if (args->output != nullptr) context->output = *args->output;
  const CollInstanceParams& instance = *settled.params->instance;
  const bool has_output =
      HasOutput(instance.type, context->rank(), instance.root);
  if (args->output == nullptr && has_output) {
    return absl::InvalidArgumentError(absl::StrCat(
        Name(instance.type), " (", InstanceLabel(*args->request), "), rank ",
        context->rank(), " (", context->device->full_name(),
        "): there is no place for the output"));
  }
  const bool is_late = has_output && args->allow_shared_output &&
                       settled.shares_output && !args->output->is_set() &&
                       !args->input_factor.has_value();
  if (is_late) context->late_output = args->output;
  RETURN_IF_ERROR(PrepareBuffers(*settled.params, *context->device,
                                 &context->input,
                                 is_late ? nullptr : &context->output));
  if (context->output.is_set() && !args->output->is_set()) {
    *args->output = context->output;
  }
  return absl::OkStatus();
}

absl::Status PrepareSegments(const SettledFacts& settled, CollectiveArgs* args,
                             CollectiveContext* context) {
  const CollectiveParams& params = *settled.params;
  RETURN_IF_ERROR(CheckSegments(params, *args->segments));
  context->segments = std::move(args->segments);
  if (!IsPacked(*context, settled)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      context->output,
      context->device->Allocate(params.instance->dtype, params.input_shape));
  context->input = context->output;
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTogether(const CollectiveArgs& args, bool is_preparation) {
  if (args.segments != nullptr &&
      (args.input.is_set() || args.output != nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(
        args.device->full_name(), " called ", InstanceLabel(*args.request),
        ", with segments and ", args.input.is_set() ? "an input" : "an output",
        " besides"));
  }
  if (is_preparation && args.execution.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.device->full_name(), " prepared execution ",
                     *args.execution, " of ", InstanceLabel(*args.request),
                     "; what is prepared counts its executions itself"));
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const ImplementationTraits& traits,
                         const CollectiveParams& params, const Device& device) {
  if (device.has_host_memory() || !traits.device_types.empty() ||
      traits.is_made_of_steps) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      params.instance->impl_details.implementation,
      " works in the host's memory; ", device.full_name(), " has its own"));
}

absl::Status PrepareBuffers(const CollectiveParams& params, Device& device,
                            Tensor* input, Tensor* output) {
  const CollInstanceParams& instance = *params.instance;
  const int rank = params.default_rank;
  const bool has_input = HasInput(instance.type, rank, instance.root);
  const bool has_output =
      output != nullptr && HasOutput(instance.type, rank, instance.root);
  if (!has_input) *input = Tensor();
  if (output != nullptr && !has_output) *output = Tensor();
  if (has_input) {
    if (!input->is_set()) return Invalid(params, "there is no input");
    RETURN_IF_ERROR(CheckTensor(params, "input", *input, params.input_shape));
  }
  if (!has_output) return absl::OkStatus();
  if (!output->is_set()) {
    ASSIGN_OR_RETURN(*output,
                     device.Allocate(instance.dtype, params.output_shape));
    return absl::OkStatus();
  }
  const absl::Status status =
      CheckTensor(params, "output", *output, params.output_shape);
  if (!status.ok() || !has_input) return status;
  if (OverlapOf(*input, *output) == Overlap::kNone ||
      IsInPlace(params, *input, *output)) {
    return absl::OkStatus();
  }
  return Invalid(params, "input and output overlap, but not in place: input ",
                 absl::Hex(reinterpret_cast<uintptr_t>(input->data())), " + ",
                 input->size_bytes(), " bytes, output ",
                 absl::Hex(reinterpret_cast<uintptr_t>(output->data())), " + ",
                 output->size_bytes(), " bytes");
}

absl::Status CheckSegments(const CollectiveParams& params,
                           const SegmentList& segments) {
  const CollInstanceParams& instance = *params.instance;
  if (instance.type != CollectiveType::kAllReduce) {
    return Invalid(params, "only all_reduce takes segments");
  }
  const int64_t wanted = params.input_shape.num_elements();
  if (segments.dtype() == instance.dtype && segments.num_elements() == wanted) {
    return absl::OkStatus();
  }
  return Invalid(params, "the segments have ", segments.num_elements(),
                 " elements of ", Name(segments.dtype()), ", wanted ", wanted,
                 " of ", Name(instance.dtype));
}

absl::Status PrepareMemberBuffers(const SettledFacts& settled,
                                  CollectiveArgs* args,
                                  CollectiveContext* context) {
  context->store_hint = args->store_hint;
  return args->segments == nullptr ? PrepareTensors(settled, args, context)
                                   : PrepareSegments(settled, args, context);
}

}  // namespace tutti
