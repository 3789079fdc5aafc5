#ifndef TUTTI_COLLECTIVE_H_
#define TUTTI_COLLECTIVE_H_

// Requests: the types of collectives, what one member asks for, how the
// collective runs, and how far its bits are the same on every run. Values.
// All members of an instance ask for the same; Validate() finds what is
// wrong whatever the others ask.

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

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

// How far the results of an implementation are the same bits on every run,
// whatever the timing. From the most to the least; who wants one class is
// served by those before it too.
enum class Determinism : uint8_t {
  // They depend on the inputs in rank order alone: not on how ranks lie on
  // tasks, who arrives first, or the number of threads. Two implementations may
  // still differ, by where they put the brackets: (a + b) + (c + d).
  kByRankOrder,
  kFixedLayout,   // They also depend on how ranks lie on tasks.
  kNotGuaranteed  // They may differ from run to run.
};

// "by rank order", "fixed layout", "not guaranteed".
absl::string_view Name(Determinism determinism);

// A name, with spaces or underscores. Errors: INVALID_ARGUMENT listing them.
absl::StatusOr<Determinism> ParseDeterminism(absl::string_view text);

// Whether what is offered is at least what is wanted.
inline bool Satisfies(Determinism offered, Determinism wanted) {
  return offered <= wanted;
}

using GroupKey = int64_t;
using InstanceKey = int64_t;

inline constexpr int kMaxGroupSize = 65536;

// Bounds on explicit subdivisions: how many, and times the group size, in how
// many chunks they cut the buffers.
inline constexpr int kMaxSubdivisions = 1024;
inline constexpr int64_t kMaxChunks = int64_t{1} << 24;

// What is particular to each type of collective. The alternatives are in the
// order of CollectiveType.
struct AllReduce {
  friend bool operator==(AllReduce, AllReduce) = default;
};
struct AllGather {
  // Members may differ in the first dimension of their shapes.
  bool uneven = false;

  // The first dimension of each rank's shape, this member's included; only with
  // `uneven`. They hold for one execution, and nobody is asked for them. Empty:
  // the members tell each other once, when the instance is settled. All members
  // give them or none does; where they differ, the execution fails with
  // INVALID_ARGUMENT.
  std::vector<int64_t> rows;
  friend bool operator==(const AllGather&, const AllGather&) = default;
};
struct ReduceScatter {
  friend bool operator==(ReduceScatter, ReduceScatter) = default;
};
struct Broadcast {
  // True at exactly one member: the one whose input everybody gets.
  bool is_source = false;
  friend bool operator==(Broadcast, Broadcast) = default;
};
struct AllToAll {
  // Rows of the first dimension that go to each rank; they add up to it. Empty:
  // the same number to all. All members give them or none does.
  std::vector<int64_t> send_rows;
  friend bool operator==(const AllToAll&, const AllToAll&) = default;
};
struct Permute {
  std::vector<int> permutation;  // What rank i has goes to permutation[i].
  friend bool operator==(const Permute&, const Permute&) = default;
};
struct Barrier {
  friend bool operator==(Barrier, Barrier) = default;
};
struct ReduceToRoot {
  int root = 0;
  friend bool operator==(ReduceToRoot, ReduceToRoot) = default;
};
struct GatherToRoot {
  int root = 0;
  friend bool operator==(GatherToRoot, GatherToRoot) = default;
};
struct ScatterFromRoot {
  int root = 0;
  friend bool operator==(ScatterFromRoot, ScatterFromRoot) = default;
};

using CollectiveOp =
    std::variant<AllReduce, AllGather, ReduceScatter, Broadcast, AllToAll,
                 Permute, Barrier, ReduceToRoot, GatherToRoot, ScatterFromRoot>;

inline CollectiveType TypeOf(const CollectiveOp& op) {
  return static_cast<CollectiveType>(op.index());
}

// Names a collective among all that a step runs. What it is, as its shape, is
// settled once for each generation of the group: anything else is another
// instance.
struct InstanceId {
  GroupKey group_key = 0;
  InstanceKey instance_key = 0;
  friend bool operator==(InstanceId, InstanceId) = default;
  template <typename H>
  friend H AbslHashValue(H h, InstanceId id) {
    return H::combine(std::move(h), id.group_key, id.instance_key);
  }
};

// How a collective runs. In a request, wishes; once completed, the decision.
struct CollImplDetails {
  // A registered name. Empty in a request: the best one is chosen.
  std::string implementation;

  // What the chosen implementation, or the named one, must offer at least.
  Determinism determinism = Determinism::kNotGuaranteed;

  // One ring, or one piece that goes through a chain or a pair of trees, per
  // entry: how far it rotates the devices of each task; negative also reverses
  // them. At most kMaxSubdivisions. Empty in a request: chosen from the size.
  std::vector<int> subdiv_offsets;

  // The most subdivisions to choose: -1 never more than one; 0 as 2 for rings,
  // but -1 among GPUs of one process, and as many as suit the size for pieces.
  int max_subdivs_per_device = 0;

  // Ranks in the order in which the implementation is to use them, each at most
  // once: around a ring, all of them; as those that each reduce a piece, any
  // (RankListUse). Empty: its own order.
  std::vector<int> rank_list;

  // Collectives that this process must have launched before this one, in the
  // same step: the n-th execution waits for the n-th of each.
  std::vector<InstanceId> dependencies;

  friend bool operator==(const CollImplDetails&,
                         const CollImplDetails&) = default;
};

// What one member asks for: which group it is in and what it takes part in. All
// members of an instance must agree, but for `rank`, Broadcast::is_source,
// AllToAll::send_rows and the first dimension of an uneven gather. AllGather's
// `rows` are those of one execution.
struct CollectiveRequest {
  // The group. Its first member fixes size and type.
  GroupKey group_key = 0;
  int group_size = 0;  // 1 to kMaxGroupSize.
  std::string device_type = "CPU";
  int rank = -1;  // This member's rank; all members give theirs or none does.

  // The instance.
  InstanceKey instance_key = 0;
  CollectiveOp op;
  DType dtype = DType::kFloat32;

  // Of this member's input. Where only the root has one (broadcast, scatter),
  // all give the root's. Ignored by Barrier.
  TensorShape shape;

  // Of the reducing collectives; ignored by the others.
  MergeOp merge_op;
  FinalOp final_op;

  CollImplDetails impl_details;

  friend bool operator==(const CollectiveRequest&,
                         const CollectiveRequest&) = default;
};

// AllGather's `rows`; empty where there are none.
absl::Span<const int64_t> GivenRows(const CollectiveRequest& request);

// Errors: INVALID_ARGUMENT for what is wrong whatever the other members ask:
// sizes, ranks and roots out of range, a permutation that is not one, shapes
// that do not divide, a dtype that the merge op does not support, a dependency
// on itself.
absl::Status Validate(const CollectiveRequest& request);

}  // namespace tutti

#endif  // TUTTI_COLLECTIVE_H_
