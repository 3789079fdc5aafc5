#include "named_tensors/tensor_request.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
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

// Requests for one name, and the numbers of their ranks.
struct Requests {
  const TensorRequest& front() const { return requests.front(); }
  auto begin() const { return requests.begin(); }
  auto end() const { return requests.end(); }
  size_t size() const { return requests.size(); }

  absl::Span<const TensorRequest> requests;
  const NumberedRanks& ranks;
};

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
    const TensorRequest& request = by_rank.requests[rank];
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Alike& group) {
          return std::invoke(value, *group.request) ==
                 std::invoke(value, request);
        });
    if (group == groups.end()) group = groups.insert(group, {&request, {}});
    group->ranks.push_back(by_rank.ranks.present[rank]);
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

// Words for error messages, as Horovod's users know them.
struct Wording {
  CollectiveType type;
  absl::string_view word;
  absl::string_view with_article;
};
constexpr Wording kWordings[] = {
    {CollectiveType::kAllReduce, "allreduce", "an allreduce"},
    {CollectiveType::kAllGather, "allgather", "an allgather"},
    {CollectiveType::kBroadcast, "broadcast", "a broadcast"},
    {CollectiveType::kReduceScatter, "reducescatter", "a reducescatter"},
    {CollectiveType::kAllToAll, "alltoall", "an alltoall"},
};

// Null for a collective that does not go by name.
const Wording* WordingOf(CollectiveType type) {
  for (const Wording& wording : kWordings) {
    if (wording.type == type) return &wording;
  }
  return nullptr;
}

std::string ReductionText(const TensorRequest& request) {
  return absl::StrCat(request.merge_op, request.final_op.empty() ? "" : ", ",
                      request.final_op);
}

std::string Mismatched(Requests by_rank, absl::string_view what) {
  return absl::StrCat("mismatched ", WordingOf(by_rank.front().type)->word, " ",
                      what);
}

absl::Status CheckShapes(Requests by_rank) {
  return CheckSame(by_rank, Mismatched(by_rank, "tensor shapes"),
                   &TensorRequest::shape, [](const TensorShape& shape) {
                     return absl::StrCat("sent a tensor of shape ",
                                         shape.ToString());
                   });
}

absl::Status CheckReduction(Requests by_rank) {
  RETURN_IF_ERROR(CheckSame(
      by_rank, "mismatched reductions", &ReductionText,
      [](const auto& ops) { return absl::StrCat("asked for ", ops); }));
  return CheckShapes(by_rank);
}

// Error that names the ranks for which `is_wrong`; OK if there is none.
template <typename IsWrong>
absl::Status CheckNone(Requests by_rank, const std::string& text,
                       IsWrong is_wrong) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (is_wrong(by_rank.requests[rank])) {
      ranks.push_back(by_rank.ranks.present[rank]);
    }
  }
  if (ranks.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("tensor ", Quoted(by_rank.front().name), ": ", text,
                   ": ranks ", RanksText(ranks)));
}

absl::Status CheckNoScalar(Requests by_rank, absl::string_view doing,
                           absl::string_view done) {
  return CheckNone(by_rank,
                   absl::StrCat(doing, " a scalar: a tensor that is ", done,
                                " has at least one dimension"),
                   [](const TensorRequest& request) {
                     return request.shape.num_dims() == 0;
                   });
}

absl::Status CheckDimension(Requests by_rank, int k) {
  return CheckSame(
      by_rank, Mismatched(by_rank, "tensor shapes"),
      [k](const auto& request) { return request.shape.dim(k); },
      [k](int64_t dim) {
        return absl::StrCat("sent a tensor with dimension ", k, " equal to ",
                            dim);
      });
}

// Checks that only the first dimensions differ.
absl::Status CheckRowsAlike(Requests by_rank) {
  RETURN_IF_ERROR(CheckSame(
      by_rank, Mismatched(by_rank, "dimension counts"),
      [](const auto& request) { return request.shape.num_dims(); },
      [](int num_dims) {
        return absl::StrCat("sent a tensor with ", num_dims, " dimensions");
      }));
  for (int k = 1; k < by_rank.front().shape.num_dims(); ++k) {
    RETURN_IF_ERROR(CheckDimension(by_rank, k));
  }
  return absl::OkStatus();
}

// Checks that a tensor can have the rows of all ranks, and no result more.
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
  RETURN_IF_ERROR(CheckNoScalar(by_rank, "gathering", "gathered"));
  RETURN_IF_ERROR(CheckRowsAlike(by_rank));
  return CheckRows(by_rank);
}

absl::Status CheckBroadcast(Requests by_rank) {
  RETURN_IF_ERROR(CheckSame(
      by_rank, "mismatched broadcast root ranks", &TensorRequest::root,
      [](int root) { return absl::StrCat("gave root rank ", root); }));
  RETURN_IF_ERROR(CheckShapes(by_rank));
  const int root = by_rank.front().root;
  const bool is_rank = absl::c_linear_search(by_rank.ranks.present, root);
  return CheckNone(
      by_rank,
      absl::StrCat("root rank ", root, " of ",
                   by_rank.size() + by_rank.ranks.joined.size(), " ranks"),
      [is_rank](const TensorRequest&) { return !is_rank; });
}

// Reason why the request needs the ranks that have joined; empty if it does
// not.
absl::string_view NeedForJoined(const TensorRequest& request,
                                absl::Span<const int> joined) {
  if (HasRankBlocks(request.type) && !InputIsOwnBlock(request.type)) {
    return "ranks that have joined would get rows";
  }
  if (Reduces(request.type) && !BuiltInOpsOf(request).ok()) {
    return "a custom op has no neutral element for ranks that have joined";
  }
  return HasRoot(request.type) && absl::c_linear_search(joined, request.root)
             ? "the root has joined"
             : "";
}

absl::Status CheckNeedsNoJoined(Requests by_rank) {
  const std::vector<int>& joined = by_rank.ranks.joined;
  if (joined.empty()) return absl::OkStatus();
  for (const TensorRequest& request : by_rank) {
    const absl::string_view need = NeedForJoined(request, joined);
    if (need.empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("tensor ", Quoted(by_rank.front().name), ": ",
                     WordingOf(request.type)->word, ": ", need,
                     "; joined: ranks ", RanksText(joined)));
  }
  return absl::OkStatus();
}

absl::Status CheckReduceScatter(Requests by_rank) {
  RETURN_IF_ERROR(CheckNoScalar(by_rank, "scattering", "scattered"));
  return CheckReduction(by_rank);
}

absl::Status CheckAllToAll(Requests by_rank) {
  const auto num_ranks = static_cast<int64_t>(by_rank.size());
  RETURN_IF_ERROR(CheckNoScalar(by_rank, "exchanging", "exchanged"));
  RETURN_IF_ERROR(CheckRowsAlike(by_rank));
  RETURN_IF_ERROR(CheckNone(
      by_rank, absl::StrCat("wanted send_rows for ", num_ranks, " ranks"),
      [&](const TensorRequest& request) {
        return !request.send_rows.empty() &&
               request.send_rows.size() != by_rank.size();
      }));
  RETURN_IF_ERROR(CheckNone(
      by_rank,
      absl::StrCat("rows that do not divide among ", num_ranks,
                   " ranks, without send_rows"),
      [&](const TensorRequest& request) {
        return request.send_rows.empty() && request.shape.dim(0) % num_ranks;
      }));
  return CheckRows(by_rank);
}

absl::Status InvalidRequest(const TensorRequest& request,
                            const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(request.name), text));
}

absl::Status ValidateOps(const TensorRequest& request) {
  const bool reduces = Reduces(request.type);
  if (reduces == request.merge_op.empty() ||
      request.merge_op.size() > kMaxMergeOpNameBytes) {
    return InvalidRequest(
        request,
        absl::StrCat(
            ": the name of the merge op has ", request.merge_op.size(),
            " bytes; wanted ",
            reduces ? absl::StrCat("1 to ", kMaxMergeOpNameBytes) : "none"));
  }
  if (request.final_op.size() <= (reduces ? kMaxMergeOpNameBytes : 0)) {
    return absl::OkStatus();
  }
  return InvalidRequest(
      request,
      absl::StrCat(
          ": the name of the final op has ", request.final_op.size(),
          " bytes; wanted ",
          reduces ? absl::StrCat("at most ", kMaxMergeOpNameBytes) : "none"));
}

// Checks the given rows, and that only an all-to-all has some.
absl::Status ValidateRows(const TensorRequest& request) {
  if (request.send_rows.empty()) return absl::OkStatus();
  if (request.type != CollectiveType::kAllToAll ||
      request.send_rows.size() > kMaxSendRows) {
    return InvalidRequest(
        request, absl::StrCat(": send_rows has ", request.send_rows.size(),
                              " entries; wanted none, or at most ",
                              kMaxSendRows, " of an alltoall"));
  }
  int64_t num_rows = 0;
  for (const int64_t rows : request.send_rows) {
    if (rows < 0 || __builtin_add_overflow(num_rows, rows, &num_rows)) {
      return InvalidRequest(request, absl::StrCat(": send_rows has ", rows));
    }
  }
  const TensorShape& shape = request.shape;
  if (shape.num_dims() == 0 || shape.dim(0) == num_rows) {
    return absl::OkStatus();  // All ranks hear of a scalar.
  }
  return InvalidRequest(
      request, absl::StrCat(": send_rows has ", num_rows,
                            " rows in all; the input has ", shape.dim(0)));
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
  if (WordingOf(request.type) == nullptr) {
    return InvalidRequest(
        request,
        absl::StrCat(": collective ", static_cast<int>(request.type),
                     " does not go by name; wanted ",
                     absl::StrJoin(kWordings, ", ",
                                   [](std::string* out, const Wording& known) {
                                     absl::StrAppend(out, Name(known.type));
                                   })));
  }
  if (request.shape.num_dims() > kMaxTensorDims) {
    return InvalidRequest(
        request, absl::StrCat(" has ", request.shape.num_dims(),
                              " dimensions; at most ", kMaxTensorDims));
  }
  const bool has_root = request.type == CollectiveType::kBroadcast;
  if (request.root < 0 || (request.root > 0 && !has_root)) {
    return InvalidRequest(
        request, absl::StrCat(": the root is ", request.root, "; wanted ",
                              has_root ? "a rank" : "none"));
  }
  RETURN_IF_ERROR(ValidateOps(request));
  RETURN_IF_ERROR(ValidateRows(request));
  return SizeInBytes(request.dtype, request.shape).status();
}

absl::StatusOr<BuiltInOps> BuiltInOpsOf(const TensorRequest& request) {
  ASSIGN_OR_RETURN(const auto kind, ParseReductionKind(request.merge_op));
  if (request.final_op.empty()) return BuiltInOps{kind, FinalOp()};
  const FinalOp division = FinalOp::DivideByGroupSize();
  if (request.final_op == division.name()) return BuiltInOps{kind, division};
  return InvalidRequest(
      request, absl::StrCat(": \"", request.final_op, "\" is a custom op"));
}

bool IsSizedByAll(CollectiveType type) {
  return InputIsOwnBlock(type) || ExchangesBlocks(type);
}

std::vector<int64_t> RowsToRanks(const TensorRequest& request, int num_ranks) {
  return request.send_rows.empty()
             ? BalancedRows(request.shape.dim(0), num_ranks)
             : request.send_rows;
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

absl::Status CheckRequestsAgree(absl::Span<const TensorRequest> requests,
                                NumberedRanks ranks) {
  if (requests.empty()) return absl::OkStatus();
  if (ranks.present.empty()) {
    ranks.present.resize(requests.size());
    absl::c_iota(ranks.present, 0);
  }
  const Requests by_rank = {requests, ranks};
  RETURN_IF_ERROR(CheckSame(
      by_rank, "mismatched data types", &TensorRequest::dtype,
      [](DType dtype) { return absl::StrCat("had type ", Name(dtype)); }));
  RETURN_IF_ERROR(CheckSame(by_rank, "mismatched operations",
                            &TensorRequest::type, [](CollectiveType type) {
                              return absl::StrCat(
                                  "did ", WordingOf(type)->with_article);
                            }));
  RETURN_IF_ERROR(CheckNeedsNoJoined(by_rank));
  switch (by_rank.front().type) {
    case CollectiveType::kAllGather:
      return CheckGather(by_rank);
    case CollectiveType::kBroadcast:
      return CheckBroadcast(by_rank);
    case CollectiveType::kReduceScatter:
      return CheckReduceScatter(by_rank);
    case CollectiveType::kAllToAll:
      return CheckAllToAll(by_rank);
    default:
      return CheckReduction(by_rank);
  }
}

}  // namespace tutti
