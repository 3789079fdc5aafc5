#include "named_tensors/tensor_request.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "tutti/named_tensors.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr size_t kMaxShownBytes = 200;

TensorRequest WithRows(TensorRequest request, int64_t rows) {
  auto shape = request.shape.WithFirstDim(rows);
  if (shape.ok()) request.shape = *std::move(shape);
  return request;
}

using Requests = absl::Span<const TensorRequest>;

// A request, and all ranks whose requests have the same compared value.
struct Alike {
  const TensorRequest* request;
  std::vector<int> ranks;
};

// Groups the ranks by a value of their requests, in the order of first ranks.
template <typename Value>
std::vector<Alike> GroupBy(Requests by_rank, Value value) {
  std::vector<Alike> groups;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const TensorRequest& request = by_rank[rank];
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Alike& group) {
          return std::invoke(value, *group.request) ==
                 std::invoke(value, request);
        });
    if (group == groups.end()) group = groups.insert(group, {&request, {}});
    group->ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

// Checks that a value, a member of TensorRequest or a function of it, is the
// same for all requests. `did` says in words what a rank with that value did.
template <typename Value, typename Did>
absl::Status CheckSame(Requests by_rank, absl::string_view mismatch,
                       Value value, Did did) {
  const std::vector<Alike> groups = GroupBy(by_rank, value);
  if (groups.size() == 1) return absl::OkStatus();
  const Alike& one = groups[0];
  const Alike& other = groups[1];
  const auto further = absl::MakeSpan(groups).subspan(2);
  const auto what = [&](const Alike& group) {
    return did(std::invoke(value, *group.request));
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor ", Quoted(one.request->name), ": ", mismatch, ": one rank ",
      what(one), ", but another rank ", what(other), ": ranks ",
      RanksText(one.ranks), " / ", RanksText(other.ranks),
      further.empty() ? "" : "; ", ShortList(further.size(), [&](size_t i) {
        return absl::StrCat("a further one ", what(further[i]), ": ranks ",
                            RanksText(further[i].ranks));
      })));
}

absl::Status CheckReduction(Requests by_rank) {
  RETURN_IF_ERROR(
      CheckSame(by_rank, "mismatched reductions", &TensorRequest::merge_op,
                [](const auto& op) { return absl::StrCat("asked for ", op); }));
  return CheckSame(by_rank, "mismatched allreduce tensor shapes",
                   &TensorRequest::shape, [](const TensorShape& shape) {
                     return absl::StrCat("sent a tensor of shape ",
                                         shape.ToString());
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
      [k](int64_t dim) {
        return absl::StrCat("sent a tensor with dimension ", k, " equal to ",
                            dim);
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
  RETURN_IF_ERROR(CheckSame(
      by_rank, "mismatched allgather dimension counts",
      [](const auto& request) { return request.shape.num_dims(); },
      [](int num_dims) {
        return absl::StrCat("sent a tensor with ", num_dims, " dimensions");
      }));
  for (int k = 1; k < by_rank.front().shape.num_dims(); ++k) {
    RETURN_IF_ERROR(CheckDimension(by_rank, k));
  }
  return CheckRows(by_rank);
}

}  // namespace

std::string Quoted(absl::string_view name) {
  if (name.size() <= kMaxShownBytes) {
    return absl::StrCat("\"", absl::CHexEscape(name), "\"");
  }
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, kMaxShownBytes)),
                      "...\" (", name.size(), " bytes)");
}

absl::Status Validate(const TensorRequest& request) {
  if (request.name.empty() || request.name.size() > kMaxTensorNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name of a tensor has 1 to ", kMaxTensorNameBytes,
                     " bytes; this one has ", request.name.size()));
  }
  if (!IsValid(request.dtype)) return InvalidDType(request.dtype);
  if (request.type != CollectiveType::kAllReduce &&
      request.type != CollectiveType::kAllGather) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(request.name),
                     ": all_reduce and all_gather go by name, not collective ",
                     static_cast<int>(request.type)));
  }
  if (request.shape.num_dims() > kMaxTensorDims) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(request.name), " has ", request.shape.num_dims(),
        " dimensions; at most ", kMaxTensorDims));
  }
  const bool reduces = request.type == CollectiveType::kAllReduce;
  if (reduces == request.merge_op.empty() ||
      request.merge_op.size() > kMaxMergeOpNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(request.name), ": the name of the merge op has ",
        request.merge_op.size(), " bytes; wanted ",
        reduces ? absl::StrCat("1 to ", kMaxMergeOpNameBytes) : "none"));
  }
  return SizeInBytes(request.dtype, request.shape).status();
}

RankRequests::RankRequests(TensorRequest first)
    : name_(std::exchange(first.name, std::string())),
      first_(std::move(first)) {}

void RankRequests::Add(int rank, TensorRequest request) {
  request.name = std::string();
  if (request == first_) return;
  const TensorShape& shape = request.shape;
  if (shape.num_dims() > 0 && request == WithRows(first_, shape.dim(0))) {
    rows_[rank] = shape.dim(0);
  } else {
    others_[rank] = std::move(request);
  }
}

TensorRequest RankRequests::Of(int rank) const {
  const auto other = others_.find(rank);
  if (other != others_.end()) return other->second;
  const auto rows = rows_.find(rank);
  return rows == rows_.end() ? first_ : WithRows(first_, rows->second);
}

std::vector<TensorRequest> RankRequests::OfAll(int num_ranks) const {
  std::vector<TensorRequest> by_rank;
  for (int rank = 0; rank < num_ranks; ++rank) by_rank.push_back(Of(rank));
  by_rank.front().name = name_;
  return by_rank;
}

std::string RanksText(absl::Span<const int> ranks) {
  return absl::StrCat(
      "[",
      ShortList(ranks.size(), [&](size_t i) { return absl::StrCat(ranks[i]); }),
      "]");
}

absl::Status CheckRequestsAgree(Requests by_rank) {
  if (by_rank.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSame(
      by_rank, "mismatched data types", &TensorRequest::dtype,
      [](DType dtype) { return absl::StrCat("had type ", Name(dtype)); }));
  RETURN_IF_ERROR(CheckSame(by_rank, "mismatched operations",
                            &TensorRequest::type, [](CollectiveType type) {
                              return type == CollectiveType::kAllReduce
                                         ? "did an allreduce"
                                         : "did an allgather";
                            }));
  return by_rank.front().type == CollectiveType::kAllReduce
             ? CheckReduction(by_rank)
             : CheckGather(by_rank);
}

}  // namespace tutti
