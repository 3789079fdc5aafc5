#ifndef TUTTI_TOOLS_REQUEST_COLLECTIVE_SPEC_H_
#define TUTTI_TOOLS_REQUEST_COLLECTIVE_SPEC_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"

namespace tutti {

// What a command line says of a collective; empty where it says nothing.
struct CollectiveWords {
  std::string collective;
  std::string reduction;
  std::optional<int> root;
  std::vector<int> permutation;
};

// Which collective, whatever the ranks and their data.
struct CollectiveSpec {
  CollectiveType type = CollectiveType::kAllReduce;
  std::string reduction;  // "sum", ..., "avg"; empty unless Reduces(type).
  MergeOp merge_op;
  FinalOp final_op;
  int root = 0;
  std::vector<int> permutation;
};

// The average is a sum whose result is divided by the number of ranks. Errors:
// UsageError for an unknown name, and for a word that does not go with the
// collective.
absl::StatusOr<CollectiveSpec> ParseCollectiveSpec(
    const CollectiveWords& words);

// Whether groups of that size can run it at all. Errors: UsageError for a root
// that is no rank and for what is no permutation of the ranks.
absl::Status CheckGroupSize(const CollectiveSpec& spec, int group_size);

// Whether --rank-list names ranks of groups of that size, each at most once.
// Errors: UsageError.
absl::Status CheckRankList(const std::vector<int>& ranks, int group_size);

// Why the library would refuse such a request, without the keys of its group
// and instance, which no command line gives. Empty if it would not.
std::string WhyInvalid(const CollectiveRequest& request);

// What one rank asks for, but for the group's and instance's keys, dtype,
// shape and implementation.
CollectiveRequest RequestOf(const CollectiveSpec& spec, int group_size,
                            int rank);

// "all_reduce sum", "broadcast from rank 2", ...
std::string ToString(const CollectiveSpec& spec);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_COLLECTIVE_SPEC_H_
