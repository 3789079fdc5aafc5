#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "schedule/lower/lowering.h"
#include "tutti/implementation.h"
#include "tutti/lowering.h"
#include "tutti/params.h"
#include "tutti/schedule.h"
#include "tutti/selection.h"

namespace tutti {
namespace {

absl::Status CheckGroup(const LowerRequest& request) {
  const int size = request.layout.size();
  if (request.collective.group_size != size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request is for a group of ", request.collective.group_size,
        ", the layout ", request.layout.ToString(), " has ", size, " ranks"));
  }
  if (request.source < 0 || request.source >= size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "source ", request.source, " is not within a group of ", size));
  }
  const size_t given = request.in_place.size();
  if (given == 0 || given == static_cast<size_t>(size)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "in_place says it for ", given, " ranks of a group of ", size));
}

absl::StatusOr<int64_t> BytesOf(const CollInstanceParams& instance, int size) {
  ASSIGN_OR_RETURN(const auto input, InputShape(instance, size, instance.root));
  ASSIGN_OR_RETURN(const auto output,
                   OutputShape(instance, size, instance.root));
  ASSIGN_OR_RETURN(const auto input_bytes, SizeInBytes(instance.dtype, input));
  ASSIGN_OR_RETURN(const auto output_bytes,
                   SizeInBytes(instance.dtype, output));
  return static_cast<int64_t>(std::max(input_bytes, output_bytes));
}

// Returns the named implementation, or else the cheapest implementation that
// sends messages.
absl::StatusOr<std::shared_ptr<const CollectiveFactory>> Choose(
    const LowerRequest& request, CollInstanceParams* instance) {
  CollImplDetails& details = instance->impl_details;
  ASSIGN_OR_RETURN(const auto bytes, BytesOf(*instance, request.layout.size()));
  ASSIGN_OR_RETURN(auto selection,
                   SelectImplementation(
                       CollectiveRegistry::Global(),
                       {.type = instance->type,
                        .layout = request.layout,
                        .device_type = request.collective.device_type,
                        .bytes = bytes,
                        .one_process = !details.implementation.empty(),
                        .implementation = details.implementation,
                        .merge_op = instance->merge_op,
                        .final_op = instance->final_op,
                        .wants_subdivisions = !details.subdiv_offsets.empty(),
                        .wants_steps = details.implementation.empty(),
                        .num_listed_ranks = details.rank_list.size(),
                        .determinism = details.determinism}));
  details.implementation = selection.name;
  return selection.factory;
}

absl::Status Check(const LowerRequest& request) {
  RETURN_IF_ERROR(Validate(request.collective));
  RETURN_IF_ERROR(CheckGroup(request));
  if (!IsUneven(request.collective.op)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("cannot lower ", Name(TypeOf(request.collective.op)),
                   " with blocks that may differ in size"));
}

absl::StatusOr<Lowering> Begin(const LowerRequest& request) {
  RETURN_IF_ERROR(Check(request));
  CollInstanceParams instance = InstanceOf(request.collective);
  if (HasRoot(instance.type)) {
    instance.root = RootOf(request.collective.op).value_or(request.source);
  }
  ASSIGN_OR_RETURN(const auto factory, Choose(request, &instance));
  const Algorithm* const algorithm = AlgorithmOf(*factory);
  if (algorithm == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("cannot lower ", instance.impl_details.implementation,
                     ": it is not made of steps"));
  }
  CollGroupParams group;
  group.device_type = request.collective.device_type;
  group.members.resize(request.layout.size());
  group.layout = std::make_shared<const GroupLayout>(request.layout);
  RETURN_IF_ERROR(
      factory->Create()->InitializeCollectiveParams(group, &instance));
  return Lowering(algorithm->plan, std::move(group), std::move(instance));
}

bool IsInPlace(const LowerRequest& request, int rank) {
  return !request.in_place.empty() && request.in_place[rank];
}

}  // namespace

absl::Status LowerGroup(const LowerRequest& request, GraphBuilder& builder) {
  ASSIGN_OR_RETURN(auto lowering, Begin(request));
  for (int rank = 0; rank < request.layout.size(); ++rank) {
    RETURN_IF_ERROR(
        lowering.AddMember(rank, IsInPlace(request, rank), /*fuse=*/true));
  }
  const absl::Status status = lowering.JoinTransfers();
  return status.ok() ? lowering.AddTo(builder, /*transfers=*/nullptr) : status;
}

absl::Status LowerMember(const LowerRequest& request, int rank,
                         MemberGraphBuilder& builder) {
  ASSIGN_OR_RETURN(auto lowering, Begin(request));
  if (rank < 0 || rank >= request.layout.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot lower rank ", rank, " of a group of ", request.layout.size()));
  }
  const absl::Status status =
      lowering.AddMember(rank, IsInPlace(request, rank), /*fuse=*/false);
  return status.ok() ? lowering.AddTo(builder, &builder) : status;
}

}  // namespace tutti
