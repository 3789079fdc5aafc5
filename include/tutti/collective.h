#ifndef TUTTI_COLLECTIVE_H_
#define TUTTI_COLLECTIVE_H_

// Requests: the types of collectives, the request of one member, the details of
// how a collective runs, and the determinism of its bits. Values. All members
// of an instance give equal requests. Validate() finds errors that do not
// depend on other members.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Types of collectives. n is the size of the group. Every member has one input
// and one output unless said otherwise. docs/architecture.md has the shapes.
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
  kScan,           // Output r is the reduction of inputs 0 to r.
  kExscan,         // Output r is that of inputs 0 to r - 1; none at rank 0.
};

// Returns "all_reduce", "reduce_scatter", ...
absl::string_view Name(CollectiveType type);

// Inverse of Name(). Errors: INVALID_ARGUMENT listing the known names.
absl::StatusOr<CollectiveType> ParseCollectiveType(absl::string_view name);

// True where inputs are combined: all_reduce, reduce_scatter, reduce, scan,
// exscan.
bool Reduces(CollectiveType type);

// True where an output combines the inputs of the first ranks alone: scan,
// exscan.
bool IsScan(CollectiveType type);

// Number of inputs, from rank 0 on, that `rank` gets the reduction of: all,
// rank + 1 in a scan, `rank` in an exscan. REQUIRES: Reduces(type).
int NumReduced(CollectiveType type, int rank, int group_size);

// True where one member is special: broadcast, reduce, gather, scatter.
bool HasRoot(CollectiveType type);

// True where a buffer consists of one block for each rank: all_gather,
// reduce_scatter, all_to_all, gather, scatter.
bool HasRankBlocks(CollectiveType type);

// InputIsOwnBlock: the input is this rank's block of the output: all_gather,
// gather. OutputIsOwnBlock: the reverse: reduce_scatter, scatter.
bool InputIsOwnBlock(CollectiveType type);
bool OutputIsOwnBlock(CollectiveType type);

// True where the input has a block for each rank, the output one from each:
// all_to_all.
bool ExchangesBlocks(CollectiveType type);

// True if this member has an input, or an output. `root` matters only where
// HasRoot(type). Rank 0 of an exscan has no output.
bool HasInput(CollectiveType type, int rank, int root);
bool HasOutput(CollectiveType type, int rank, int root);

// Classes of determinism: how far results are the same bits on every run, for
// any timing. Ordered from strongest to weakest. A stronger class satisfies a
// request for a weaker one.
enum class Determinism : uint8_t {
  // Results depend only on the inputs in rank order: not on the placement of
  // ranks on tasks, on arrival order, or on the number of threads. Two
  // implementations may still bracket differently: (a + b) + (c + d).
  kByRankOrder,
  kFixedLayout,   // Also depends on the placement of ranks on tasks.
  kNotGuaranteed  // May differ from run to run.
};

// Returns "by rank order", "fixed layout" or "not guaranteed".
absl::string_view Name(Determinism determinism);

// Parses a name, with spaces or underscores. Errors: INVALID_ARGUMENT listing
// the names.
absl::StatusOr<Determinism> ParseDeterminism(absl::string_view text);

// True if the class offered is at least as strong as the class wanted.
inline bool Satisfies(Determinism offered, Determinism wanted) {
  return offered <= wanted;
}

using GroupKey = int64_t;
using InstanceKey = int64_t;

inline constexpr int kMaxGroupSize = 65536;

// Bounds on explicit subdivisions: their number, and the number of chunks
// (subdivisions times group size).
inline constexpr int kMaxSubdivisions = 1024;
inline constexpr int64_t kMaxChunks = int64_t{1} << 24;

// Fields particular to each type of collective. The alternatives are in the
// order of CollectiveType.
struct AllReduce {
  friend bool operator==(AllReduce, AllReduce) = default;
};

// Rows that differ by rank. A row is an entry of the first dimension of a
// shape; 0 rows are fine. `rows`, or `send_rows` with `recv_rows`, hold for one
// execution: other rows need no other instance, and no exchange between
// members. Either all members give them or none does. If members give different
// rows for a block that moves between them, the execution fails on all members
// with INVALID_ARGUMENT. A member that has ended its part before then has
// succeeded.
struct AllGather {
  // Members may differ in the number of rows of their shapes.
  bool uneven = false;

  // Rows of each rank's input, this member's included; only with `uneven`.
  // Empty: the members exchange their rows once, when the instance is settled.
  std::vector<int64_t> rows;
  friend bool operator==(const AllGather&, const AllGather&) = default;
};
struct ReduceScatter {
  // The blocks of the ranks may differ in size.
  bool uneven = false;

  // Rows of each rank's output, which add up to the rows of every input; only
  // with `uneven`. Empty: balanced. 73 rows among 4 ranks are 19, 18, 18, 18.
  std::vector<int64_t> rows;
  friend bool operator==(const ReduceScatter&, const ReduceScatter&) = default;
};
struct Broadcast {
  // True at exactly one member: the source, whose input all members get.
  bool is_source = false;
  friend bool operator==(Broadcast, Broadcast) = default;
};
struct AllToAll {
  // Number of rows of the first dimension that go to each rank; the sum is that
  // dimension. Empty: the same number to all. Either all members give rows or
  // none does.
  std::vector<int64_t> send_rows;

  // Number of rows that come from each rank; only with `send_rows`. Empty: the
  // members exchange `send_rows` once, when the instance is settled.
  std::vector<int64_t> recv_rows;
  friend bool operator==(const AllToAll&, const AllToAll&) = default;
};
struct Permute {
  std::vector<int> permutation;  // Input of rank i goes to permutation[i].
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
  bool uneven = false;        // As in AllGather.
  std::vector<int64_t> rows;  // As in AllGather.
  friend bool operator==(const GatherToRoot&, const GatherToRoot&) = default;
};
struct ScatterFromRoot {
  int root = 0;
  bool uneven = false;        // As in ReduceScatter.
  std::vector<int64_t> rows;  // As in ReduceScatter; of the root's input.
  friend bool operator==(const ScatterFromRoot&,
                         const ScatterFromRoot&) = default;
};
struct Scan {
  friend bool operator==(Scan, Scan) = default;
};
struct Exscan {
  friend bool operator==(Exscan, Exscan) = default;
};

using CollectiveOp =
    std::variant<AllReduce, AllGather, ReduceScatter, Broadcast, AllToAll,
                 Permute, Barrier, ReduceToRoot, GatherToRoot, ScatterFromRoot,
                 Scan, Exscan>;

inline constexpr auto kAllCollectiveTypes = [] {
  std::array<CollectiveType, std::variant_size_v<CollectiveOp>> all = {};
  for (size_t i = 0; i < all.size(); ++i) all[i] = CollectiveType(i);
  return all;
}();

inline CollectiveType TypeOf(const CollectiveOp& op) {
  return static_cast<CollectiveType>(op.index());
}

// Names a collective among all that a step runs. Its request is settled once
// for each generation of the group. A request with another shape or type is
// another instance.
struct InstanceId {
  GroupKey group_key = 0;
  InstanceKey instance_key = 0;
  friend bool operator==(InstanceId, InstanceId) = default;
  template <typename H>
  friend H AbslHashValue(H h, InstanceId id) {
    return H::combine(std::move(h), id.group_key, id.instance_key);
  }
};

// How a collective runs: wishes in a request, the decision once completed.
struct CollImplDetails {
  // A registered name. Empty in a request: Tutti chooses the best
  // implementation.
  std::string implementation;

  // Weakest class that the implementation, chosen or named, must offer.
  Determinism determinism = Determinism::kNotGuaranteed;

  // Entries, one per subdivision: a ring, or a piece that goes through a chain
  // or a pair of trees. The entry rotates the devices of each task by that many
  // places; a negative entry also reverses them. At most kMaxSubdivisions
  // entries. Empty in a request: Tutti chooses from the size.
  std::vector<int> subdiv_offsets;

  // Largest number of subdivisions to choose, per device of a task. -1: one in
  // all. 0: for rings, 2 per device, but one in all among GPUs of one process;
  // for pieces, as many as suit the size.
  int max_subdivs_per_device = 0;

  // Ranks in the order in which the implementation uses them, each at most
  // once. Around a ring: all ranks. As the ranks that each reduce a piece: any
  // subset (RankListUse). Between tasks, ranks stand for their tasks. Empty:
  // the implementation's default order.
  std::vector<int> rank_list;

  // Collectives of the same step that this process must launch before this one.
  // The n-th execution waits for the n-th execution of each.
  std::vector<InstanceId> dependencies;

  friend bool operator==(const CollImplDetails&,
                         const CollImplDetails&) = default;
};

// Request of one member: its group and its collective. All members of an
// instance give equal requests, except for `rank`, Broadcast::is_source,
// AllToAll's rows and the first dimension of an uneven gather. Rows that hold
// for one execution may differ between executions, and with them the first
// dimension.
struct CollectiveRequest {
  // Group. The first member to join fixes size and device type.
  GroupKey group_key = 0;
  int group_size = 0;  // 1 to kMaxGroupSize.
  std::string device_type = "CPU";
  int rank = -1;  // This member's rank. Given by all members or by none.

  // Instance.
  InstanceKey instance_key = 0;
  CollectiveOp op;
  DType dtype = DType::kFloat32;

  // Shape of this member's input. Where only the root has an input (broadcast,
  // scatter), all members give the root's shape. Ignored by Barrier.
  TensorShape shape;

  // Used by the reducing collectives only. Scans take no final op.
  MergeOp merge_op;
  FinalOp final_op;

  CollImplDetails impl_details;

  friend bool operator==(const CollectiveRequest&,
                         const CollectiveRequest&) = default;
};

// Checks one request without the other members' requests. Errors:
// INVALID_ARGUMENT for a size, rank or root out of range, for a list that is
// not a permutation, and for a shape that does not divide. Likewise for a dtype
// that the merge op does not support, for a final op of a scan, and for a
// dependency on itself.
absl::Status Validate(const CollectiveRequest& request);

}  // namespace tutti

#endif  // TUTTI_COLLECTIVE_H_
