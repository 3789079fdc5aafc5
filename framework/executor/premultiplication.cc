#include "framework/executor/premultiplication.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/executor/call_args.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/params.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

absl::Status CheckFactor(const CollInstanceParams& instance,
                         const Device& device) {
  if (!Reduces(instance.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(instance.type), " on ", device.full_name(),
                     " combines no inputs and takes no input factor"));
  }
  if (!IsFloating(instance.dtype) && !IsComplex(instance.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Name(instance.type), " ", instance.merge_op.name(), " of ",
        Name(instance.dtype), " on ", device.full_name(),
        " takes no input factor; wanted a floating or complex dtype"));
  }
  if (device.has_host_memory()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("input factors are applied in the host's memory; ",
                   device.full_name(), " has its own"));
}

// The segments, with their outputs as inputs.
absl::StatusOr<std::shared_ptr<const SegmentList>> InPlace(
    const SegmentList& segments) {
  std::vector<SegmentList::Segment> in_place;
  for (const SegmentList::Segment& segment : segments.segments()) {
    in_place.push_back({segment.output, segment.output});
  }
  return SegmentList::Create(std::move(in_place));
}

}  // namespace

Premultiplication::Premultiplication(double factor,
                                     const CollectiveContext& context)
    : factor_(factor),
      input_(context.segments == nullptr ? context.input : Tensor()),
      segments_(context.segments) {}

absl::StatusOr<std::unique_ptr<const Premultiplication>>
Premultiplication::Create(double factor, const SettledFacts& settled,
                          CollectiveContext* context) {
  const CollInstanceParams& instance = *settled.params->instance;
  RETURN_IF_ERROR(CheckFactor(instance, *context->device));
  std::unique_ptr<const Premultiplication> made(
      new Premultiplication(factor, *context));
  if (IsPacked(*context, settled)) return made;
  if (context->segments != nullptr) {
    ASSIGN_OR_RETURN(context->segments, InPlace(*context->segments));
  } else if (context->output.is_set() &&
             context->output.shape() == context->input.shape()) {
    context->input = context->output;
  } else {
    ASSIGN_OR_RETURN(
        context->input,
        context->device->Allocate(instance.dtype, context->input.shape()));
  }
  return made;
}

void Premultiplication::Run(CollectiveContext& context) const {
  const DType dtype = context.params->instance->dtype;
  if (context.segments == segments_) {  // None, or packed.
    const Tensor& from = segments_ == nullptr ? input_ : context.input;
    return MultiplyBy(dtype, from.data(), context.input.mutable_data(),
                      static_cast<size_t>(from.num_elements()), factor_);
  }
  for (const SegmentList::Piece& piece : segments_->pieces()) {
    const auto num_bytes = static_cast<size_t>(piece.end - piece.begin);
    MultiplyBy(dtype, piece.input, piece.output, num_bytes / SizeOf(dtype),
               factor_);
  }
}

}  // namespace tutti
