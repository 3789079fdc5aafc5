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

// Words of a command line that describe a collective; empty if not given.
struct CollectiveWords {
  std::string collective;
  std::string reduction;
  std::optional<int> root;
  std::vector<int> permutation;
};

// A collective without the ranks' data.
struct CollectiveSpec {
  CollectiveType type = CollectiveType::kAllReduce;
  std::string reduction;  // "sum", ..., "avg"; empty unless Reduces(type).
  MergeOp merge_op;
  FinalOp final_op;
  int root = 0;
  std::vector<int> permutation;
};

// Parses the words. "avg" becomes a sum whose result is divided by the number
// of ranks. Errors: UsageError for an unknown name, and for a word that does
// not go with the collective.
absl::StatusOr<CollectiveSpec> ParseCollectiveSpec(
    const CollectiveWords& words);

// Checks that a group of this size can run the collective. Errors: UsageError
// if the root is not a rank, or if the permutation does not permute the ranks.
absl::Status CheckGroupSize(const CollectiveSpec& spec, int group_size);

// Checks that --rank-list names ranks of a group of this size, each at most
// once. Errors: UsageError.
absl::Status CheckRankList(const std::vector<int>& ranks, int group_size);

// Explains why the library would refuse this request; empty if it would accept
// it. Ignores the group and instance keys, which no command line sets.
std::string WhyInvalid(const CollectiveRequest& request);

// Request of one rank. The caller sets the group and instance keys, the dtype,
// the shape and the implementation.
CollectiveRequest RequestOf(const CollectiveSpec& spec, int group_size,
                            int rank);

// "all_reduce sum", "broadcast from rank 2", ...
std::string ToString(const CollectiveSpec& spec);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_COLLECTIVE_SPEC_H_
