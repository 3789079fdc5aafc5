#include "tools/request/collective_spec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace {

constexpr absl::string_view kAverage = "avg";

absl::Status ParseReduction(const std::string& name, CollectiveSpec* spec) {
  spec->reduction =
      name.empty() ? std::string(Name(ReductionKind::kSum)) : name;
  if (spec->reduction == kAverage) {
    spec->final_op = FinalOp::DivideByGroupSize();
    return absl::OkStatus();
  }
  const absl::StatusOr<ReductionKind> kind =
      ParseReductionKind(spec->reduction);
  if (!kind.ok()) {
    return UsageError(
        absl::StrCat("--reduction: ", kind.status().message(), ", ", kAverage));
  }
  spec->merge_op = *kind;
  return absl::OkStatus();
}

bool TakesAverage(CollectiveType type) {
  return Reduces(type) && !IsScan(type);
}

bool IsPermute(CollectiveType type) { return type == CollectiveType::kPermute; }

// Empty if each number is a rank and occurs once. Validate() repeats this check
// for requests, but its groups are smaller than simulated groups.
std::string WhyNotRanks(const std::vector<int>& ranks, int group_size) {
  std::vector<bool> seen(static_cast<size_t>(group_size));
  for (int rank : ranks) {
    if (rank < 0 || rank >= group_size) {
      return absl::StrCat(rank, " is no rank");
    }
    if (seen[rank]) return absl::StrCat(rank, " stands twice");
    seen[rank] = true;
  }
  return "";
}

// Empty if `permutation` is one.
std::string WhyNoPermutation(const std::vector<int>& permutation,
                             int group_size) {
  if (static_cast<int>(permutation.size()) != group_size) {
    return absl::StrCat("it has ", permutation.size(), " entries");
  }
  return WhyNotRanks(permutation, group_size);
}

// Error for an option given with a collective that does not take it; `takes_it`
// returns whether a collective takes the option.
absl::Status DoesNotGoWith(absl::string_view option, CollectiveType type,
                           bool (*takes_it)(CollectiveType)) {
  std::vector<absl::string_view> others;
  for (CollectiveType other : kAllCollectiveTypes) {
    if (takes_it(other)) others.push_back(Name(other));
  }
  return UsageError(absl::StrCat(option, " does not go with ", Name(type),
                                 ", only with ", absl::StrJoin(others, ", ")));
}

CollectiveOp OpOf(const CollectiveSpec& spec, int rank) {
  CollectiveOp op = DefaultOp(spec.type);
  std::visit(
      [&](auto& typed) {
        if constexpr (requires { typed.root; }) typed.root = spec.root;
        if constexpr (requires { typed.is_source; }) {
          typed.is_source = rank == spec.root;
        }
        if constexpr (requires { typed.permutation; }) {
          typed.permutation = spec.permutation;
        }
      },
      op);
  return op;
}

}  // namespace

absl::StatusOr<CollectiveSpec> ParseCollectiveSpec(
    const CollectiveWords& words) {
  const absl::StatusOr<CollectiveType> type =
      ParseCollectiveType(words.collective);
  if (!type.ok()) return UsageError(type.status().message());
  CollectiveSpec spec{.type = *type};
  if (Reduces(*type)) {
    RETURN_IF_ERROR(ParseReduction(words.reduction, &spec));
    if (IsScan(*type) && !spec.final_op.is_identity()) {
      return DoesNotGoWith("--reduction avg", *type, TakesAverage);
    }
  } else if (!words.reduction.empty()) {
    return DoesNotGoWith("--reduction", *type, Reduces);
  }
  if (words.root.has_value() && !HasRoot(*type)) {
    return DoesNotGoWith("--root", *type, HasRoot);
  }
  if (!words.permutation.empty() && !IsPermute(*type)) {
    return DoesNotGoWith("--permutation", *type, IsPermute);
  }
  spec.root = words.root.value_or(0);
  spec.permutation = words.permutation;
  return spec;
}

absl::Status CheckGroupSize(const CollectiveSpec& spec, int group_size) {
  if (spec.root < 0 || spec.root >= group_size) {
    return UsageError(absl::StrCat("--root ", spec.root,
                                   " is no rank of a group of ", group_size,
                                   "; wanted 0 to ", group_size - 1));
  }
  if (spec.type != CollectiveType::kPermute) return absl::OkStatus();
  const std::string why = WhyNoPermutation(spec.permutation, group_size);
  if (why.empty()) return absl::OkStatus();
  return UsageError(
      absl::StrCat("--permutation: [", absl::StrJoin(spec.permutation, ","),
                   "] is not a permutation of ", group_size, " ranks: ", why));
}

absl::Status CheckRankList(const std::vector<int>& ranks, int group_size) {
  const std::string why = WhyNotRanks(ranks, group_size);
  if (why.empty()) return absl::OkStatus();
  return UsageError(absl::StrCat("--rank-list: [", absl::StrJoin(ranks, ","),
                                 "] does not list ranks of a group of ",
                                 group_size, ": ", why));
}

std::string WhyInvalid(const CollectiveRequest& request) {
  const absl::Status status = Validate(request);
  absl::string_view why = status.message();
  absl::ConsumePrefix(&why, absl::StrCat(Name(TypeOf(request.op)), " (group ",
                                         request.group_key, ", instance ",
                                         request.instance_key, "): "));
  return std::string(why);
}

CollectiveRequest RequestOf(const CollectiveSpec& spec, int group_size,
                            int rank) {
  CollectiveRequest request;
  request.group_size = group_size;
  request.rank = rank;
  request.op = OpOf(spec, rank);
  request.merge_op = spec.merge_op;
  request.final_op = spec.final_op;
  return request;
}

std::string ToString(const CollectiveSpec& spec) {
  std::string text(Name(spec.type));
  if (Reduces(spec.type)) absl::StrAppend(&text, " ", spec.reduction);
  if (HasRoot(spec.type)) {
    const bool is_to_all = HasOutput(spec.type, /*rank=*/1, /*root=*/0);
    absl::StrAppend(&text, is_to_all ? " from" : " to", " rank ", spec.root);
  }
  if (IsPermute(spec.type)) {
    absl::StrAppend(&text, " ", absl::StrJoin(spec.permutation, ","));
  }
  return text;
}

}  // namespace tutti
