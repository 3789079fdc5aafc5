#include "framework/executor/member_buffers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/request_fields.h"
#include "framework/executor/buffer_check.h"

namespace tutti {
namespace {

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
                       settled.shares_output && !args->output->is_set();
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

absl::Status PrepareMemberBuffers(const SettledFacts& settled,
                                  CollectiveArgs* args,
                                  CollectiveContext* context) {
  context->store_hint = args->store_hint;
  return args->segments == nullptr ? PrepareTensors(settled, args, context)
                                   : PrepareSegments(settled, args, context);
}

}  // namespace tutti
