#ifndef TUTTI_NAMED_TENSORS_H_
#define TUTTI_NAMED_TENSORS_H_

// Named tensors: collectives by the names of tensors, in any order on each
// task. ClusterRuntime::coordinator() gives the Coordinator of a task.
// Requests that are ready together run as one collective.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tutti/environment.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Any bytes, NUL too; at least one, and at most so many.
inline constexpr size_t kMaxTensorNameBytes = size_t{64} << 10;

// One rank's part in a collective that goes by name. What is written until
// `done` overlaps no other tensor that the rank has asked for: several run
// together.
struct NamedTensor {
  std::string name;  // Any bytes; at most kMaxTensorNameBytes.
  Tensor input;

  // Where the result goes; valid until `done`. A reduction's may be the input's
  // memory, and is allocated if it is not set; a gather's is always allocated.
  Tensor* output = nullptr;

  MergeOp merge_op;  // Of a reduction.
};

// A tensor that some ranks have asked for, and others have not.
struct StalledTensor {
  std::string name;
  std::vector<int> present;  // Ranks, in order.
  std::vector<int> missing;
  absl::Duration waited;  // Since the first rank asked.

  std::string ToString() const;
};

// What to say of them, the oldest of which comes first: a line for all of which
// the same ranks are missing.
std::vector<std::string> LinesOf(absl::Span<const StalledTensor> tensors);

// How named tensors are coordinated. Those of rank zero count.
struct CoordinatorSettings {
  // Requests for reductions that are ready together, of one dtype and one
  // merge op, run as one collective over at most so many bytes. 0: each alone.
  int64_t fusion_bytes = int64_t{64} << 20;

  // After so long a tensor that not all ranks have asked for is reported, once;
  // those that come due within a sixteenth of it after a report, together.
  absl::Duration stall_report_after = absl::Seconds(60);

  // After so long it ends with DEADLINE_EXCEEDED on the ranks that have asked.
  absl::Duration stall_deadline = absl::InfiniteDuration();

  // Gets the reports, on rank zero, with no lock held; must not block. Null:
  // LinesOf() those that come together are written to standard error.
  std::function<void(const StalledTensor& tensor)> stalled;
};

// Collectives by the names of tensors, for programs whose ranks reach them in
// different orders: each rank asks when its tensor is ready, rank zero decides
// when all have asked, and all run what it decides, in one order. The ranks are
// the tasks of the cluster, each with one device.
//
// Thread-safe. `done` runs exactly once, as that of ExecuteAsync or, for what
// does not run, inside the call, on a thread of the channel's or of the work
// queue; it must not block. Input and output belong to the request until then.
//
// Where the processor does not reach the device's memory, what is decided runs
// one after the other: libraries such as NCCL launch on a communicator in one
// order on all processes, and those that are under way together have none.
// There what waits for its turn when runs are cancelled ends with the reason
// when the one before has ended.
//
// An error of one tensor is no error of another; the loss of a task ends
// everything.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  // The tensors of that name of all ranks become their reduction, on all ranks.
  //
  // Errors: ALREADY_EXISTS if this rank has asked for the name and it has not
  // run; INVALID_ARGUMENT for a name, a dtype or tensors that cannot be;
  // FAILED_PRECONDITION, on all ranks, where the ranks ask for different
  // things; DEADLINE_EXCEEDED naming the ranks that are missing, if rank zero
  // has a limit; RESOURCE_EXHAUSTED if too much waits; the reason of the end;
  // those of ExecuteAsync.
  virtual void AllReduce(NamedTensor tensor, StatusCallback done) = 0;

  // The tensors of that name of all ranks, one after the other in the order of
  // the ranks. They may differ in their first dimension. Errors: as above.
  virtual void AllGather(NamedTensor tensor, StatusCallback done) = 0;

  // Ends what has not been decided, on all ranks, with CANCELLED naming this
  // one. `done` when all requests of this rank have ended: what was decided
  // before runs. Errors: that of telling rank zero; all has ended all the same.
  virtual void Shutdown(StatusCallback done) = 0;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_H_
