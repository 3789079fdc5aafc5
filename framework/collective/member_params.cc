#include "framework/collective/member_params.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "framework/collective/request_fields.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<const CollectiveParams>> MakeMemberParams(
    std::shared_ptr<const CollGroupParams> group,
    std::shared_ptr<const CollInstanceParams> instance,
    std::shared_ptr<const CollTaskParams> task, int rank) {
  ASSIGN_OR_RETURN(auto input, InputShape(*instance, group->size(), rank));
  ASSIGN_OR_RETURN(auto output, OutputShape(*instance, group->size(), rank));
  RETURN_IF_ERROR(SizeInBytes(instance->dtype, output).status());
  auto params = std::make_shared<CollectiveParams>();
  params->default_rank = rank;
  params->is_source =
      instance->type == CollectiveType::kBroadcast && rank == instance->root;
  params->input_shape = std::move(input);
  params->output_shape = std::move(output);
  params->group = std::move(group);
  params->instance = std::move(instance);
  params->task = std::move(task);
  return params;
}

std::shared_ptr<const CollectiveParams> MembershipIn(
    std::shared_ptr<const CollGroupParams> group,
    std::shared_ptr<const CollTaskParams> task, int rank) {
  auto params = std::make_shared<CollectiveParams>();
  params->group = std::move(group);
  params->task = std::move(task);
  params->default_rank = rank;
  return params;
}

absl::StatusOr<std::shared_ptr<const CollectiveParams>> ParamsOfCall(
    std::shared_ptr<const CollectiveParams> settled,
    const CollectiveRequest& request) {
  const absl::Span<const int64_t> rows = GivenRows(request);
  if (rows.empty()) return settled;
  const auto invalid = [&request](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat(InstanceLabel(request), ": rows ", what...));
  };
  if (rows.size() != settled->group->members.size()) {
    return invalid("has ", rows.size(), " entries for a group of ",
                   settled->group->size());
  }
  const int rank = settled->default_rank;
  if (request.shape.dim(0) != rows[rank]) {
    return invalid("says that rank ", rank, " has ", rows[rank],
                   " rows, but its shape is ", request.shape.ToString());
  }
  if (rows == settled->instance->rows) return settled;
  auto shape = request.shape.WithFirstDim(rows[0]);
  if (!shape.ok()) return invalid("is wrong: ", shape.status().message());
  auto instance = std::make_shared<CollInstanceParams>(*settled->instance);
  instance->rows.assign(rows.begin(), rows.end());
  instance->shape = *std::move(shape);
  return MakeMemberParams(settled->group, std::move(instance), settled->task,
                          rank);
}

}  // namespace tutti
