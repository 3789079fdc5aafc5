#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "framework/collective/request_fields.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

template <typename... Args>
absl::Status Invalid(const CollectiveRequest& request, const Args&... args) {
  return absl::InvalidArgumentError(
      absl::StrCat(Name(TypeOf(request.op)), " (group ", request.group_key,
                   ", instance ", request.instance_key, "): ", args...));
}

absl::Status ValidateGroup(const CollectiveRequest& request) {
  if (request.group_size < 1 || request.group_size > kMaxGroupSize) {
    return Invalid(request, "group size ", request.group_size,
                   " is not between 1 and ", kMaxGroupSize);
  }
  if (request.rank < -1 || request.rank >= request.group_size) {
    return Invalid(request, "rank ", request.rank, " is not within a group of ",
                   request.group_size);
  }
  if (request.device_type.empty()) {
    return Invalid(request, "the device type is empty");
  }
  return absl::OkStatus();
}

absl::Status ValidateRoot(const CollectiveRequest& request, int root) {
  if (root >= 0 && root < request.group_size) return absl::OkStatus();
  return Invalid(request, "root ", root, " is not within a group of ",
                 request.group_size);
}

absl::Status ValidatePermutation(const CollectiveRequest& request,
                                 const std::vector<int>& permutation) {
  const auto invalid = [&](absl::string_view why) {
    return Invalid(request, "[", absl::StrJoin(permutation, ","),
                   "] is not a permutation of ", request.group_size,
                   " ranks: ", why);
  };
  if (static_cast<int>(permutation.size()) != request.group_size) {
    return invalid(absl::StrCat("it has ", permutation.size(), " entries"));
  }
  std::vector<bool> seen(permutation.size());
  for (int target : permutation) {
    if (target < 0 || target >= request.group_size) {
      return invalid(absl::StrCat(target, " is no rank"));
    }
    if (seen[target]) return invalid(absl::StrCat(target, " stands twice"));
    seen[target] = true;
  }
  return absl::OkStatus();
}

absl::Status ValidateHasRows(const CollectiveRequest& request) {
  if (request.shape.num_dims() > 0) return absl::OkStatus();
  return Invalid(request, "needs at least one dimension, got a scalar");
}

// Checks that the first dimension can be cut into one block per rank.
absl::Status ValidateBlocks(const CollectiveRequest& request) {
  if (request.shape.dim(0) % request.group_size == 0) return absl::OkStatus();
  return Invalid(request, "the first dimension of ", request.shape.ToString(),
                 " is not divisible by the group size ", request.group_size);
}

// Returns the sum of a list that has an entry for each rank.
absl::StatusOr<int64_t> SumOfRows(const CollectiveRequest& request,
                                  absl::string_view name,
                                  absl::Span<const int64_t> rows) {
  if (static_cast<int>(rows.size()) != request.group_size) {
    return Invalid(request, name, " has ", rows.size(),
                   " entries for a group of ", request.group_size);
  }
  int64_t total = 0;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    if (rows[rank] < 0 || __builtin_add_overflow(total, rows[rank], &total)) {
      return Invalid(request, name, " has a value out of range for rank ", rank,
                     ": ", rows[rank]);
    }
  }
  return total;
}

// Checks rows that are all of the rows of the shape.
absl::Status ValidateAllRows(const CollectiveRequest& request,
                             absl::string_view name,
                             absl::Span<const int64_t> rows) {
  ASSIGN_OR_RETURN(const int64_t total, SumOfRows(request, name, rows));
  if (total == request.shape.dim(0)) return absl::OkStatus();
  return Invalid(request, name, " add up to ", total,
                 ", but the first dimension of ", request.shape.ToString(),
                 " is ", request.shape.dim(0));
}

absl::Status ValidateExchange(const CollectiveRequest& request,
                              const AllToAll& op) {
  if (!op.recv_rows.empty()) {
    if (op.send_rows.empty()) {
      return Invalid(request, "recv_rows are given, but not send_rows");
    }
    RETURN_IF_ERROR(SumOfRows(request, "recv_rows", op.recv_rows).status());
  }
  if (op.send_rows.empty()) return ValidateBlocks(request);
  return ValidateAllRows(request, "send_rows", op.send_rows);
}

// Checks the rows of collectives with a block for each rank.
absl::Status ValidateRows(const CollectiveRequest& request) {
  RETURN_IF_ERROR(ValidateHasRows(request));
  if (const auto* exchange = std::get_if<AllToAll>(&request.op)) {
    return ValidateExchange(request, *exchange);
  }
  const bool cuts_shape = OutputIsOwnBlock(TypeOf(request.op));
  const absl::Span<const int64_t> rows = RowsOf(request.op);
  if (!IsUneven(request.op)) {
    if (!rows.empty()) {
      return Invalid(request, "rows are given, but not that it is uneven");
    }
    return cuts_shape ? ValidateBlocks(request) : absl::OkStatus();
  }
  if (rows.empty()) return absl::OkStatus();
  return cuts_shape ? ValidateAllRows(request, "rows", rows)
                    : SumOfRows(request, "rows", rows).status();
}

absl::Status ValidateOffsets(const CollectiveRequest& request) {
  const size_t num_offsets = request.impl_details.subdiv_offsets.size();
  if (num_offsets > kMaxSubdivisions) {
    return Invalid(request, "subdiv_offsets has ", num_offsets,
                   " entries; wanted at most ", kMaxSubdivisions);
  }
  const auto num_chunks =
      static_cast<int64_t>(num_offsets) * request.group_size;
  if (num_chunks > kMaxChunks) {
    return Invalid(request, "subdiv_offsets has ", num_offsets,
                   " entries, which for a group of ", request.group_size,
                   " makes ", num_chunks, " chunks; wanted at most ",
                   kMaxChunks);
  }
  return absl::OkStatus();
}

absl::Status ValidateRankList(const CollectiveRequest& request) {
  const std::vector<int>& list = request.impl_details.rank_list;
  std::vector<bool> seen(request.group_size);
  for (int rank : list) {
    if (rank < 0 || rank >= request.group_size) {
      return Invalid(request, "rank_list [", absl::StrJoin(list, ","),
                     "] names rank ", rank, " in a group of ",
                     request.group_size);
    }
    if (seen[rank]) {
      return Invalid(request, "rank_list [", absl::StrJoin(list, ","),
                     "] names rank ", rank, " twice");
    }
    seen[rank] = true;
  }
  return absl::OkStatus();
}

absl::Status ValidateDetails(const CollectiveRequest& request) {
  const CollImplDetails& details = request.impl_details;
  if (details.max_subdivs_per_device < -1) {
    return Invalid(request, "max_subdivs_per_device is ",
                   details.max_subdivs_per_device,
                   "; wanted -1 (one subdivision), 0 (default) or more");
  }
  for (InstanceId id : details.dependencies) {
    if (id == InstanceId{request.group_key, request.instance_key}) {
      return Invalid(request, "the instance depends on itself");
    }
  }
  const absl::Status status = ValidateRankList(request);
  return status.ok() ? ValidateOffsets(request) : status;
}

absl::Status ValidateOp(const CollectiveRequest& request) {
  const CollectiveType type = TypeOf(request.op);
  absl::Status status;
  if (const auto* permute = std::get_if<Permute>(&request.op)) {
    status = ValidatePermutation(request, permute->permutation);
  } else if (HasRankBlocks(type)) {
    status = ValidateRows(request);
  }
  const std::optional<int> root = RootOf(request.op);
  return status.ok() && root.has_value() ? ValidateRoot(request, *root)
                                         : status;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CollectiveRequest>> RequestOfGroup(
    const CollectiveRequest& request) {
  RETURN_IF_ERROR(ValidateGroup(request));
  return std::make_shared<const CollectiveRequest>(
      CollectiveRequest{.group_key = request.group_key,
                        .group_size = request.group_size,
                        .device_type = request.device_type,
                        .rank = request.rank,
                        .instance_key = request.instance_key,
                        .op = Barrier{}});
}

absl::Status Validate(const CollectiveRequest& request) {
  RETURN_IF_ERROR(ValidateGroup(request));
  RETURN_IF_ERROR(ValidateOp(request));
  RETURN_IF_ERROR(ValidateDetails(request));
  const absl::StatusOr<int64_t> bytes =
      SizeInBytes(request.dtype, request.shape);
  if (!bytes.ok()) return Invalid(request, bytes.status().message());
  if (!Reduces(TypeOf(request.op))) return absl::OkStatus();
  if (IsScan(TypeOf(request.op)) && !request.final_op.is_identity()) {
    return Invalid(request, "the final op is ", request.final_op.name(),
                   "; outputs of a scan reduce different numbers of inputs, "
                   "so it takes none");
  }
  const absl::Status supported = request.merge_op.CheckSupports(request.dtype);
  return supported.ok() ? supported : Invalid(request, supported.message());
}

}  // namespace tutti
