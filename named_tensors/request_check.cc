#include "named_tensors/request_check.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

using Requests = absl::Span<const TensorRequest>;

absl::string_view Operation(const TensorRequest& request) {
  return request.type == CollectiveType::kAllReduce ? "allreduce" : "allgather";
}

// A request, and all ranks whose requests have the same compared value.
struct Alike {
  const TensorRequest* request;
  std::vector<int> ranks;
};

// Groups the ranks by `value` of their requests, in the order of first ranks.
template <typename Value>
std::vector<Alike> GroupBy(Requests by_rank, Value value) {
  std::vector<Alike> groups;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const TensorRequest& request = by_rank[rank];
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Alike& group) {
          return value(*group.request) == value(request);
        });
    if (group == groups.end()) group = groups.insert(group, {&request, {}});
    group->ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

// Checks that `value` is the same for all requests. `did` says in words what a
// rank with the given request did.
template <typename Value, typename Did>
absl::Status CheckSame(Requests by_rank, absl::string_view mismatch,
                       Value value, Did did) {
  const std::vector<Alike> groups = GroupBy(by_rank, value);
  if (groups.size() == 1) return absl::OkStatus();
  const Alike& one = groups[0];
  const Alike& other = groups[1];
  const auto further = absl::MakeSpan(groups).subspan(2);
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor ", Quoted(one.request->name), ": ", mismatch, ": one rank ",
      did(*one.request), ", but another rank ", did(*other.request), ": ranks ",
      RanksText(one.ranks), " / ", RanksText(other.ranks),
      further.empty() ? "" : "; ", ShortList(further.size(), [&](size_t i) {
        return absl::StrCat("a further one ", did(*further[i].request),
                            ": ranks ", RanksText(further[i].ranks));
      })));
}

absl::Status CheckReduction(Requests by_rank) {
  absl::Status status = CheckSame(
      by_rank, "mismatched reductions",
      [](const auto& request) { return request.merge_op; },
      [](const auto& request) {
        return absl::StrCat("asked for ", request.merge_op);
      });
  if (!status.ok()) return status;
  return CheckSame(
      by_rank, "mismatched allreduce tensor shapes",
      [](const auto& request) { return request.shape; },
      [](const auto& request) {
        return absl::StrCat("sent a tensor of shape ",
                            request.shape.ToString());
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
      by_rank, "mismatched allgather tensor shapes",
      [k](const auto& request) { return request.shape.dim(k); },
      [k](const auto& request) {
        return absl::StrCat("sent a tensor with dimension ", k, " equal to ",
                            request.shape.dim(k));
      });
}

// Checks that a tensor can have the size of the result.
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
  RETURN_IF_ERROR(CheckNoScalar(by_rank));
  absl::Status status = CheckSame(
      by_rank, "mismatched allgather dimension counts",
      [](const auto& request) { return request.shape.num_dims(); },
      [](const auto& request) {
        return absl::StrCat("sent a tensor with ", request.shape.num_dims(),
                            " dimensions");
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
      by_rank, "mismatched data types",
      [](const auto& request) { return request.dtype; },
      [](const auto& request) {
        return absl::StrCat("had type ", Name(request.dtype));
      });
  if (!status.ok()) return status;
  status = CheckSame(
      by_rank, "mismatched operations",
      [](const auto& request) { return request.type; },
      [](const auto& request) {
        return absl::StrCat("did an ", Operation(request));
      });
  if (!status.ok()) return status;
  return by_rank.front().type == CollectiveType::kAllReduce
             ? CheckReduction(by_rank)
             : CheckGather(by_rank);
}

}  // namespace tutti
