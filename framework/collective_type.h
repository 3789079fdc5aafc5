#ifndef TUTTI_FRAMEWORK_COLLECTIVE_TYPE_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_TYPE_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

// What a collective does. n is the size of the group; every member has one
// input and one output unless said otherwise. docs/architecture.md has shapes.
enum class CollectiveType : uint8_t {
  kAllReduce,      // Every output is the reduction of all inputs.
  kAllGather,      // Every output is all inputs, one after the other.
  kReduceScatter,  // Output r is block r of the reduction of all inputs.
  kBroadcast,      // Every output is the source's input.
  kAllToAll,       // Block i of output j is block j of input i.
  kPermute,        // Output of rank permutation[i] is input i.
  kBarrier,        // Moves nothing; ends when all members have begun.
  kReduce,         // The root's output is the reduction of all inputs.
  kGather,         // The root's output is all inputs, one after the other.
  kScatter,        // Output r is block r of the root's input.
};

inline constexpr std::array<CollectiveType, 10> kAllCollectiveTypes = {
    CollectiveType::kAllReduce,     CollectiveType::kAllGather,
    CollectiveType::kReduceScatter, CollectiveType::kBroadcast,
    CollectiveType::kAllToAll,      CollectiveType::kPermute,
    CollectiveType::kBarrier,       CollectiveType::kReduce,
    CollectiveType::kGather,        CollectiveType::kScatter};

// "all_reduce", "reduce_scatter", ...
absl::string_view Name(CollectiveType type);

// The inverse of Name(). Errors: INVALID_ARGUMENT listing the known names.
absl::StatusOr<CollectiveType> ParseCollectiveType(absl::string_view name);

// True where inputs are combined: all_reduce, reduce_scatter, reduce.
bool Reduces(CollectiveType type);

// True where one member is special: broadcast, reduce, gather, scatter.
bool HasRoot(CollectiveType type);

// True where the larger buffer, or both, are one block for each rank:
// all_gather, reduce_scatter, all_to_all, gather, scatter.
bool HasRankBlocks(CollectiveType type);

// True where the input is this rank's block of the output: all_gather, gather;
// and the other way round: reduce_scatter, scatter.
bool InputIsOwnBlock(CollectiveType type);
bool OutputIsOwnBlock(CollectiveType type);

// Which members have an input and an output. `root` matters where HasRoot().
bool HasInput(CollectiveType type, int rank, int root);
bool HasOutput(CollectiveType type, int rank, int root);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_TYPE_H_
