#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tutti/collective.h"

namespace tutti {

absl::string_view Name(CollectiveType type) {
  switch (type) {
    case CollectiveType::kAllReduce:
      return "all_reduce";
    case CollectiveType::kAllGather:
      return "all_gather";
    case CollectiveType::kReduceScatter:
      return "reduce_scatter";
    case CollectiveType::kBroadcast:
      return "broadcast";
    case CollectiveType::kAllToAll:
      return "all_to_all";
    case CollectiveType::kPermute:
      return "permute";
    case CollectiveType::kBarrier:
      return "barrier";
    case CollectiveType::kReduce:
      return "reduce";
    case CollectiveType::kGather:
      return "gather";
    case CollectiveType::kScatter:
      return "scatter";
  }
  return "unknown";
}

absl::StatusOr<CollectiveType> ParseCollectiveType(absl::string_view name) {
  for (CollectiveType type : kAllCollectiveTypes) {
    if (Name(type) == name) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown collective \"", name, "\"; known: ",
                   absl::StrJoin(kAllCollectiveTypes, ", ",
                                 [](std::string* out, CollectiveType type) {
                                   absl::StrAppend(out, Name(type));
                                 })));
}

bool Reduces(CollectiveType type) {
  return type == CollectiveType::kAllReduce ||
         type == CollectiveType::kReduceScatter ||
         type == CollectiveType::kReduce;
}

bool HasRoot(CollectiveType type) {
  return type == CollectiveType::kBroadcast ||
         type == CollectiveType::kReduce || type == CollectiveType::kGather ||
         type == CollectiveType::kScatter;
}

bool HasRankBlocks(CollectiveType type) {
  return InputIsOwnBlock(type) || OutputIsOwnBlock(type) ||
         type == CollectiveType::kAllToAll;
}

bool InputIsOwnBlock(CollectiveType type) {
  return type == CollectiveType::kAllGather || type == CollectiveType::kGather;
}

bool OutputIsOwnBlock(CollectiveType type) {
  return type == CollectiveType::kReduceScatter ||
         type == CollectiveType::kScatter;
}

bool HasInput(CollectiveType type, int rank, int root) {
  switch (type) {
    case CollectiveType::kBarrier:
      return false;
    case CollectiveType::kBroadcast:
    case CollectiveType::kScatter:
      return rank == root;
    default:
      return true;
  }
}

bool HasOutput(CollectiveType type, int rank, int root) {
  switch (type) {
    case CollectiveType::kBarrier:
      return false;
    case CollectiveType::kReduce:
    case CollectiveType::kGather:
      return rank == root;
    default:
      return true;
  }
}

}  // namespace tutti
