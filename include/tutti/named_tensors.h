#ifndef TUTTI_NAMED_TENSORS_H_
#define TUTTI_NAMED_TENSORS_H_

// Named tensors: collectives by the names of tensors, in any order on each
// task. ClusterRuntime::coordinator() returns the Coordinator of a task.
// Requests that are ready together run as one collective.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tutti/environment.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Maximum key in ClusterRuntime::CreateCoordinator().
inline constexpr int64_t kMaxCoordinatorKey = 65536;

// Maximum length of a name, which has at least one byte. Any bytes, also NUL.
inline constexpr size_t kMaxTensorNameBytes = size_t{64} << 10;

// Part of a rank in a collective that is identified by name. Memory that is
// written before `done` must not overlap other requested tensors of the rank:
// several run together.
struct NamedTensor {
  std::string name;  // Any bytes; at most kMaxTensorNameBytes.
  Tensor input;

  // Place of the result; valid until `done`. The result is allocated if this is
  // unset, and always for AllGather and AllToAll. In place: AllReduce and
  // Broadcast may write to the input's memory, ReduceScatter to the input's
  // rows of this rank.
  Tensor* output = nullptr;

  // Used by AllReduce and ReduceScatter.
  MergeOp merge_op;
  FinalOp final_op;  // FinalOp::DivideByGroupSize() of a sum: an average.

  // Used by Broadcast: the rank whose input all ranks get.
  int root = 0;

  // Used by AllToAll. Rows of the first dimension that go to each rank; empty:
  // equally many to all. Place of the rows that came from each rank, set before
  // `done`; may be null.
  std::vector<int64_t> send_rows;
  std::vector<int64_t>* received_rows = nullptr;
};

// A tensor that only some ranks have requested.
struct StalledTensor {
  std::string name;
  std::vector<int> present;  // Ranks, in order.
  std::vector<int> missing;  // Without ranks that have joined.
  absl::Duration waited;     // Since the first request.

  std::string ToString() const;
};

// Returns one line of text for all tensors with the same missing ranks.
// `tensors` starts with the oldest.
std::vector<std::string> LinesOf(absl::Span<const StalledTensor> tensors);

// Settings of named tensors. Those given at rank zero apply.
struct CoordinatorSettings {
  // Maximum size of one collective in bytes. Reductions with one dtype and one
  // merge op that are ready together run as one collective. 0: each runs alone.
  int64_t fusion_bytes = int64_t{64} << 20;

  // Time after which a tensor that some ranks have not requested is reported,
  // once. Tensors that become due within a sixteenth of this time after a
  // report are reported together.
  absl::Duration stall_report_after = DefaultTime("stall report");

  // Time after which such a tensor ends with DEADLINE_EXCEEDED on the ranks
  // that requested it.
  absl::Duration stall_deadline = DefaultTime("stall");

  // Gets the reports, on rank zero, with no lock held; must not block. Null:
  // LinesOf() the tensors reported together is written to standard error.
  std::function<void(const StalledTensor& tensor)> stalled;
};

// Gets the rank that joined last, once all ranks have joined.
using JoinCallback = absl::AnyInvocable<void(absl::StatusOr<int>) &&>;

// Collectives by names of tensors, for programs whose ranks reach them in
// different orders. Each rank sends a request when its tensor is ready. Rank
// zero decides when all ranks have requested a tensor. All ranks run the
// decisions in one order. The ranks are the tasks of the cluster, or some of
// them, each with one device. All numbers of ranks, such as a root, are those
// of the tasks. "Rank order" is the order in which the tasks were given.
//
// Thread-safe. `done` runs exactly once, like that of ExecuteAsync. For a
// request that does not run, it runs inside the call or on a thread of the
// channel or the work queue. `done` must not block. Until then, input and
// output belong to the request.
//
// If the processor cannot reach the device's memory, decisions run one after
// the other. Libraries such as NCCL need one launch order on all processes, and
// concurrent runs have no order. If runs are cancelled, a waiting one then ends
// with the reason once the run before it has ended.
//
// An error of one tensor does not affect other tensors. The loss of a rank's
// task ends the coordinator. Other coordinators, also those created later
// without the task or with the process that took its place, go on.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  // Reduces the tensors with this name of all ranks; every rank gets the
  // result. The ranks' requests have equal shapes and ops.
  //
  // Errors: ALREADY_EXISTS if this rank has requested the name and that has not
  // run; INVALID_ARGUMENT for an invalid name, dtype or tensor;
  // FAILED_PRECONDITION, on all ranks, if the ranks' requests differ, or cannot
  // run among so many ranks, or if this rank has joined; DEADLINE_EXCEEDED
  // naming the missing ranks, if rank zero has a limit; RESOURCE_EXHAUSTED if
  // too many requests wait; the reason of the end; errors of ExecuteAsync.
  virtual void AllReduce(NamedTensor tensor, StatusCallback done) = 0;

  // Concatenates the tensors with this name of all ranks, in rank order. Their
  // first dimensions may differ. Errors: as above.
  virtual void AllGather(NamedTensor tensor, StatusCallback done) = 0;

  // Copies the root's input to all ranks. Other ranks give an output of that
  // shape, or an input of that shape, which is not read. Errors: as above.
  virtual void Broadcast(NamedTensor tensor, StatusCallback done) = 0;

  // Reduces as AllReduce(), and gives each rank a block of the rows, in rank
  // order. If the rows do not divide, the first ranks get one row more. Errors:
  // as above.
  virtual void ReduceScatter(NamedTensor tensor, StatusCallback done) = 0;

  // Sends rows to each rank, in rank order. The result has the rows from all
  // ranks, in rank order. First dimensions may differ. Errors: as above.
  virtual void AllToAll(NamedTensor tensor, StatusCallback done) = 0;

  // Joins: this rank has run out of data, and requests nothing until `done` has
  // run. `done` runs when all ranks have joined, and everything requested
  // before has been decided. Until then the other ranks' requests run without
  // waiting for this rank, which takes part, in memory allocated for that:
  //  - AllReduce: with the neutral element of the merge op. A sum of floats
  //    gets -0, a product of complex numbers 1 + 0i. An average still divides
  //    by the number of all ranks. The ops must be built-in.
  //  - AllGather: with no rows. Broadcast: if it is not the root.
  //  - Other requests end with FAILED_PRECONDITION, on the ranks that made
  //    them: a joined rank is the root, an op is custom, or a joined rank would
  //    get rows (ReduceScatter, AllToAll). The text names the joined ranks.
  //
  // Errors: FAILED_PRECONDITION if this rank has joined already; the reason of
  // the end.
  virtual void Join(JoinCallback done) = 0;

  // Ends all undecided requests, on all ranks, with CANCELLED naming this rank.
  // `done` runs when all requests of this rank have ended; requests decided
  // before still run. Errors: failure to notify rank zero; all requests have
  // ended anyway.
  virtual void Shutdown(StatusCallback done) = 0;

  // Ends everything on this rank at once, including runs. Notifies rank zero if
  // possible, which then ends everything on all ranks. This holds also if this
  // rank has requested nothing: other ranks may wait for it.
  virtual void End(absl::Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_H_
