#ifndef TUTTI_NAMED_TENSORS_DECISION_RUN_H_
#define TUTTI_NAMED_TENSORS_DECISION_RUN_H_

#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "framework/base/mutex.h"
#include "named_tensors/pending_tensors.h"
#include "proto/control.pb.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

namespace tutti {

// The rank, device and executor that run decided collectives.
struct DecisionGroup {
  std::shared_ptr<CollectiveExecutor> executor;
  std::shared_ptr<Device> device;  // Device of the rank.
  GroupKey group_key = 0;
  int rank = 0;
  int num_ranks = 1;
  int task = 0;  // Number by which requests name the rank as a root.
  std::shared_ptr<Cancellation> cancellation;  // Cancels everything that runs.
};

// Runs `decision` as one collective of the executor. `tensors` are the requests
// of `decision`, which CheckDecision() has accepted. Several tensors become the
// segments of the collective. A request without a name runs as MakeStandIn()
// says, with inputs made on the work queue. A decision longer than its tensors
// gets buffers on the work queue. `done` runs as ExecuteAsync's or on the work
// queue, when device and buffers are no longer kept here. The caller runs the
// callbacks of the tensors after it.
void RunDecision(DecisionGroup group, const proto::Decision& decision,
                 std::vector<PendingTensorPtr> tensors, StatusCallback done);

// Runs functions one after the other, in the order of Add(). Each begins when
// its predecessor has ended.
//
// Thread-safe. A run begins inside Add() or where its predecessor ends, with no
// lock held, and never inside the beginning of another run. The object stays
// alive until all added runs have ended.
class RunsInOrder : public std::enable_shared_from_this<RunsInOrder> {
 public:
  // Begins the run. Calls `ended` once, inside the call or later.
  using Run = absl::AnyInvocable<void(absl::AnyInvocable<void() &&> ended) &&>;

  void Add(Run run) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void BeginAll() ABSL_LOCKS_EXCLUDED(mu_);
  Run TakeNext() ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  std::deque<Run> waiting_ ABSL_GUARDED_BY(mu_);
  bool one_runs_ ABSL_GUARDED_BY(mu_) = false;
  bool is_beginning_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_DECISION_RUN_H_
