#include "framework/coordinator/request_check.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/rank_list.h"

namespace tutti {
namespace {

using Requests = absl::Span<const TensorRequest>;

absl::string_view Operation(const TensorRequest& request) {
  return request.type == CollectiveType::kAllReduce ? "allreduce" : "allgather";
}

// Compares what `value` takes of each request. `tell` says the first two values
// that differ in words.
template <typename Value, typename Tell>
absl::Status CheckSame(Requests by_rank, Value value, Tell tell) {
  const auto& one = by_rank.front();
  const auto other = std::find_if(
      by_rank.begin(), by_rank.end(),
      [&](const auto& request) { return !(value(request) == value(one)); });
  if (other == by_rank.end()) return absl::OkStatus();
  std::vector<int> with_one, with_other;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (value(by_rank[rank]) == value(one)) {
      with_one.push_back(static_cast<int>(rank));
    } else if (value(by_rank[rank]) == value(*other)) {
      with_other.push_back(static_cast<int>(rank));
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor ", Quoted(one.name), ": ", tell(one, *other), ": ranks ",
      RanksText(with_one), " / ", RanksText(with_other)));
}

absl::Status CheckReduction(Requests by_rank) {
  absl::Status status = CheckSame(
      by_rank, [](const auto& request) { return request.merge_op; },
      [](const auto& one, const auto& other) {
        return absl::StrCat("mismatched reductions: one rank asked for ",
                            one.merge_op, ", but another rank asked for ",
                            other.merge_op);
      });
  if (!status.ok()) return status;
  return CheckSame(
      by_rank, [](const auto& request) { return request.shape; },
      [](const auto& one, const auto& other) {
        return absl::StrCat(
            "mismatched allreduce tensor shapes: one rank sent a tensor of "
            "shape ",
            one.shape.ToString(), ", but another rank sent a tensor of shape ",
            other.shape.ToString());
      });
}

absl::Status CheckNoScalar(Requests by_rank) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].shape.num_dims() == 0) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  if (ranks.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor ", Quoted(by_rank.front().name),
      ": gathering a scalar: a tensor that is gathered has at least one "
      "dimension: ranks ",
      RanksText(ranks)));
}

absl::Status CheckDimension(Requests by_rank, int k) {
  return CheckSame(
      by_rank, [k](const auto& request) { return request.shape.dim(k); },
      [k](const auto& one, const auto& other) {
        return absl::StrCat(
            "mismatched allgather tensor shapes: one rank sent a tensor with "
            "dimension ",
            k, " equal to ", one.shape.dim(k),
            ", but another rank sent a tensor with dimension ", k, " equal to ",
            other.shape.dim(k));
      });
}

// The result's size must be one that a tensor can have.
absl::Status CheckRows(Requests by_rank) {
  int64_t rows = 0;
  bool fits = true;
  for (const TensorRequest& request : by_rank) {
    fits = fits && !__builtin_add_overflow(rows, request.shape.dim(0), &rows);
  }
  if (fits && by_rank.front().shape.WithFirstDim(rows).ok()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("tensor ", Quoted(by_rank.front().name),
                   ": the rows of all ranks together are too many"));
}

absl::Status CheckGather(Requests by_rank) {
  absl::Status status = CheckNoScalar(by_rank);
  if (!status.ok()) return status;
  status = CheckSame(
      by_rank, [](const auto& request) { return request.shape.num_dims(); },
      [](const auto& one, const auto& other) {
        return absl::StrCat(
            "mismatched allgather dimension counts: one rank sent a tensor "
            "with ",
            one.shape.num_dims(),
            " dimensions, but another rank sent a tensor with ",
            other.shape.num_dims(), " dimensions");
      });
  for (int k = 1; status.ok() && k < by_rank.front().shape.num_dims(); ++k) {
    status = CheckDimension(by_rank, k);
  }
  return status.ok() ? CheckRows(by_rank) : status;
}

}  // namespace

std::string RanksText(absl::Span<const int> ranks) {
  return absl::StrCat(
      "[",
      ShortList(ranks.size(), [&](size_t i) { return absl::StrCat(ranks[i]); }),
      "]");
}

absl::Status CheckRequestsAgree(Requests by_rank) {
  if (by_rank.empty()) return absl::OkStatus();
  absl::Status status = CheckSame(
      by_rank, [](const auto& request) { return request.dtype; },
      [](const auto& one, const auto& other) {
        return absl::StrCat("mismatched data types: one rank had type ",
                            Name(one.dtype), ", but another rank had type ",
                            Name(other.dtype));
      });
  if (!status.ok()) return status;
  status = CheckSame(
      by_rank, [](const auto& request) { return request.type; },
      [](const auto& one, const auto& other) {
        return absl::StrCat("mismatched operations: one rank did an ",
                            Operation(one), ", but another rank did an ",
                            Operation(other));
      });
  if (!status.ok()) return status;
  return by_rank.front().type == CollectiveType::kAllReduce
             ? CheckReduction(by_rank)
             : CheckGather(by_rank);
}

}  // namespace tutti
