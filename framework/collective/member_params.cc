#include "framework/collective/member_params.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "framework/collective/request_fields.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

template <typename... Args>
absl::Status WrongRows(const CollectiveRequest& request, const Args&... args) {
  return absl::InvalidArgumentError(
      absl::StrCat(InstanceLabel(request), ": ", args...));
}

// Checks the number of rows (KnownRows()), and what the member says about
// itself twice.
absl::Status CheckOwnRows(const CollectiveRequest& request,
                          absl::Span<const int64_t> rows, int size, int rank) {
  const CollectiveType type = TypeOf(request.op);
  const size_t lists = ExchangesBlocks(type) ? 2 : 1;
  if (rows.size() != lists * static_cast<size_t>(size)) {
    return WrongRows(request, "rows has ", rows.size() / lists,
                     " entries for a group of ", size);
  }
  if (InputIsOwnBlock(type) && request.shape.dim(0) != rows[rank]) {
    return WrongRows(request, "rows says that rank ", rank, " has ", rows[rank],
                     " rows, but its shape is ", request.shape.ToString());
  }
  if (lists == 1 || rows[rank] == rows[size + rank]) return absl::OkStatus();
  return WrongRows(request, "rank ", rank, " sends ", rows[rank],
                   " rows to itself, but receives ", rows[size + rank]);
}

}  // namespace

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
  if (!GivesRows(request.op)) return settled;
  const int size = settled->group->size();
  const int rank = settled->default_rank;
  std::vector<int64_t> rows = KnownRows(request);
  RETURN_IF_ERROR(CheckOwnRows(request, rows, size, rank));
  const CollInstanceParams& known = *settled->instance;
  const bool of_one_rank = ExchangesBlocks(known.type);
  if (rows == known.rows && (!of_one_rank || known.rows_rank == rank)) {
    return settled;
  }
  auto instance = std::make_shared<CollInstanceParams>(known);
  instance->shape = request.shape;
  if (InputIsOwnBlock(known.type)) {
    auto of_first = request.shape.WithFirstDim(rows[0]);
    if (!of_first.ok()) {
      return WrongRows(request, "rows is wrong: ", of_first.status().message());
    }
    instance->shape = *std::move(of_first);
  }
  instance->rows = std::move(rows);
  if (of_one_rank) instance->rows_rank = rank;
  return MakeMemberParams(settled->group, std::move(instance), settled->task,
                          rank);
}

}  // namespace tutti
