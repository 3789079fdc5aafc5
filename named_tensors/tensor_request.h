#ifndef TUTTI_NAMED_TENSORS_TENSOR_REQUEST_H_
#define TUTTI_NAMED_TENSORS_TENSOR_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

inline constexpr int kMaxTensorDims = 256;
inline constexpr size_t kMaxMergeOpNameBytes = 256;

// Most names whose requests rank zero remembers, each in a slot.
inline constexpr uint32_t kMaxTensorSlots = 16384;

// Bounds on the undecided requests of one rank.
inline constexpr size_t kMaxPendingRequests = 65536;
inline constexpr size_t kMaxPendingNameBytes = size_t{64} << 20;

// Most ranks of an all-to-all whose numbers of rows differ.
inline constexpr size_t kMaxSendRows = 4096;

// Request of one rank for the tensor of that name. A value.
struct TensorRequest {
  std::string name;
  CollectiveType type = CollectiveType::kAllReduce;
  DType dtype = DType::kFloat32;
  TensorShape shape;     // Shape of this rank's input; of a broadcast's output.
  std::string merge_op;  // Empty if nothing is reduced.
  std::string final_op;  // Empty for the identity.
  int root = 0;          // Of a broadcast.

  // Rows of an all-to-all, as in NamedTensor.
  std::vector<int64_t> send_rows;

  friend bool operator==(const TensorRequest&, const TensorRequest&) = default;
};

// Returns the name for messages: escaped, and cut if long.
std::string Quoted(absl::string_view name);

// Errors: INVALID_ARGUMENT for an empty or too long name, an invalid dtype, a
// collective without names, and too many dimensions or bytes. Also for a field
// of another collective, for a missing or too long name of an op, and for rows
// that differ from the shape.
absl::Status Validate(const TensorRequest& request);

// True if the size of the result depends on the other ranks: all_gather,
// all_to_all.
bool IsSizedByAll(CollectiveType type);

// Rows of an all-to-all that go to each rank. REQUIRES: they divide, or are
// given.
std::vector<int64_t> RowsToRanks(const TensorRequest& request, int num_ranks);

// Requests of the ranks for one name. Keeps the first request whole. Keeps of
// the others only the differences: usually none, or the first dimension. Takes
// no room for ranks without a request. A value.
class RankRequests {
 public:
  // Starts with the first request, of any rank.
  explicit RankRequests(TensorRequest first);

  // Adds another request of that name. REQUIRES: called once per other rank.
  void Add(int rank, TensorRequest request);

  const std::string& name() const { return name_; }

  // The first request, without the name. If all_equal(), all requests equal it.
  const TensorRequest& first() const { return first_; }
  bool all_equal() const { return rows_.empty() && others_.empty(); }

  // Returns the request of `rank` without the name. REQUIRES: `rank` has a
  // request.
  TensorRequest Of(int rank) const;

  // Returns all requests, indexed by rank. Only rank zero's has the name.
  // REQUIRES: all ranks have a request.
  std::vector<TensorRequest> OfAll(int num_ranks) const;

 private:
  std::string name_;
  TensorRequest first_;

  // Differences by rank: the first dimension if nothing else differs, else the
  // whole request.
  absl::flat_hash_map<int, int64_t> rows_;
  absl::flat_hash_map<int, TensorRequest> others_;
};

// Ranks of a name, by the numbers that messages give them. A value.
struct NumberedRanks {
  std::vector<int> present;  // Ranks of the requests.
  std::vector<int> joined;   // Ranks that have joined instead.
};

// Checks that the requests for one name form one collective. `by_rank[i]` is
// the request of `ranks.present[i]`, or of rank i if that is empty. Pure.
//
// Errors: FAILED_PRECONDITION with the difference, the values found, and the
// ranks with each value: "mismatched data types: one rank had type float32, but
// another rank had type int32: ranks [0, 2] / [1]; a further one had type int8:
// ranks [3]". Compares data types first, then operations, then shapes. Also for
// a root that is no rank, for rows that do not fit the number of ranks, and for
// a collective that needs ranks that have joined.
absl::Status CheckRequestsAgree(absl::Span<const TensorRequest> by_rank,
                                NumberedRanks ranks = {});

// Built-in ops of the request's names. Errors: INVALID_ARGUMENT if the request
// names a custom op.
struct BuiltInOps {
  MergeOp merge_op;
  FinalOp final_op;
};
absl::StatusOr<BuiltInOps> BuiltInOpsOf(const TensorRequest& request);

// Returns "[0, 2]"; lists only the first of many ranks.
std::string RanksText(absl::Span<const int> ranks);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_TENSOR_REQUEST_H_
