#ifndef TUTTI_FRAMEWORK_COORDINATOR_COORDINATOR_H_
#define TUTTI_FRAMEWORK_COORDINATOR_COORDINATOR_H_

#include "framework/coordinator/named_tensor.h"
#include "framework/status_callback.h"

namespace tutti {

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

#endif  // TUTTI_FRAMEWORK_COORDINATOR_COORDINATOR_H_
