#ifndef TUTTI_REMOTE_COLLECTIVE_REMOTE_ACCESS_H_
#define TUTTI_REMOTE_COLLECTIVE_REMOTE_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "framework/peer/buf_rendezvous.h"
#include "remote/early_cancels.h"
#include "remote/transfer_channel.h"
#include "remote/transport.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

class PerStepCollectiveRemoteAccess;

// Moves bytes among the members of groups that span the tasks of a cluster.
// What a member lends waits in a rendezvous of its process, where local
// receivers and other tasks' requests find it; a receiver whose peer is in
// another task asks that task, as early as its schedule allows.
//
// Thread-safe. Lenders and borrowers are called with no lock held, on a thread
// of the side that came second, of the transport, or of the one that cancels.
//
// Nothing that another task asks is believed: its group must live, and the
// ranks be those of the asking process and of this one.
class CollectiveRemoteAccess
    : public TransferService,
      public std::enable_shared_from_this<CollectiveRemoteAccess> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<GroupDirectory> groups;
    std::shared_ptr<Transport> transport;

    // Asks of one other task that wait for an offer of this one; more end with
    // RESOURCE_EXHAUSTED. Each takes a few hundred bytes, and collectives that
    // are started together add up while this task is late.
    size_t max_waiting_asks = size_t{1} << 16;

    // How long they wait for this process to learn of their group.
    absl::Duration early_ask_lifetime = absl::Seconds(30);

    // Failed executions of such groups, told by other tasks, which wait as
    // long; more are refused with RESOURCE_EXHAUSTED.
    size_t max_early_cancels = 1024;

    // Bytes that this task's members offer and whose receivers have not asked
    // for them; past this a member's offer, and with it its collective, ends
    // with RESOURCE_EXHAUSTED. One offer may be larger if none else waits.
    //
    // Not bounded unless asked for: what waits are the members' own tensors,
    // which nobody copies, so that a bound saves no memory; and no other task
    // can make it grow. An all-to-all or a gather offers all of its payload at
    // once, and collectives that are started together add up, for as long as
    // one of the tasks is late: a bound below that fails what is healthy.
    size_t max_offered_bytes = BufRendezvous::kNoBound;

    // Executions that other tasks have ended: what comes late for one that is
    // remembered ends with its reason.
    size_t max_ended = 4096;
  };

  static std::shared_ptr<CollectiveRemoteAccess> Create(Options options);
  ~CollectiveRemoteAccess() override;

  // Makes the transport of a step, for its executor; it keeps this object
  // alive. Once for each step: when the transport is destroyed the step has
  // ended here, and all transfers that come later for it end with
  // StepHasEndedError().
  std::unique_ptr<PeerAccessInterface> ForStep(int64_t step_id)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Another task says that an execution has failed. It may do so before this
  // task has heard of the group, and is then believed or not once it has.
  // Errors: ABORTED for a generation that has ended; PERMISSION_DENIED for a
  // task that is not in the group; RESOURCE_EXHAUSTED.
  absl::Status CancelFromPeer(const ControlCaller& caller, const ExecKey& exec,
                              const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // A generation of the group is known, or has ended: for the directory's
  // listener.
  void OnGroupChange(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);

  // The step has ended on all tasks: its transfers end with
  // StepHasEndedError(), also those that come later; other tasks are not told
  // what fails in it from now on. Idempotent.
  void EndStep(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  void Serve(const ControlCaller& caller, const BufKey& key,
             const Ask& ask) override;
  void Withdraw(const BufKey& key, const Borrower* borrower,
                absl::Status reason) override;

  // Asks of other tasks that wait, and receives of this one that are under way;
  // for tests and reports.
  size_t num_served() const ABSL_LOCKS_EXCLUDED(mu_);
  size_t num_receiving() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class PerStepCollectiveRemoteAccess;
  class Served;
  class Receive;

  // By step, then by group, generation, instance and execution.
  struct Order {
    bool operator()(const BufKey& a, const BufKey& b) const;
  };

  explicit CollectiveRemoteAccess(Options options);

  // Calls of PerStepCollectiveRemoteAccess.
  void Post(const BufKey& key, const Offer& offer) {
    rendezvous_.Provide(key, offer);
  }
  void Recv(const CollGroupMember& peer, const BufKey& key, const Ask& ask)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Forget(const ExecKey& exec) { rendezvous_.ForgetExecution(exec); }
  absl::Status StatusOf(const ExecKey& exec) const {
    return rendezvous_.StatusOf(exec);
  }
  std::string DescribeWaiting(const CollGroupParams& group, const ExecKey& exec)
      ABSL_LOCKS_EXCLUDED(mu_);

  bool IsWithinTask(const CollGroupParams& group) const;

  // What ended, for Tell().
  struct Ended {
    BufRendezvous::Ended waiting;
    std::vector<std::shared_ptr<Receive>> receives;  // Under way.
  };

  // All end what waits and what comes late; Cancel() is false if it, or its
  // step, had ended before. A group's end ends its executions together: one by
  // one, each would look for its own among all that wait.
  bool Cancel(const ExecKey& exec, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndGroup(const CollGroupParams& group, int64_t step_id)
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndTransfers(int64_t step_id, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  void TellOthers(const CollGroupParams& group, const ExecKey& exec,
                  const absl::Status& reason);
  Ended BeginCancel(const ExecKey& exec, const absl::Status& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Tell(const Ended& ended) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(const PerStepCollectiveRemoteAccess& step, int64_t step_id)
      ABSL_LOCKS_EXCLUDED(mu_);

  CollectiveDelegate* delegate() const {
    return options_.transport->delegate();
  }

  // Serving other tasks.
  absl::Status AddServed(const std::shared_ptr<Served>& served)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Check(const Served& served) const;
  void Advance(const std::shared_ptr<Served>& served) ABSL_LOCKS_EXCLUDED(mu_);
  void AwaitGroup(const std::shared_ptr<Served>& served)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool EndEarly(Served& served) ABSL_LOCKS_EXCLUDED(mu_);
  void EndServed(const std::shared_ptr<Served>& served,
                 const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<Served> RemoveServed(Served& served) ABSL_LOCKS_EXCLUDED(mu_);
  void EraseServed(const Served& served) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Receiving from them.
  void Request(Receive& receive) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<Receive> RemoveReceive(Receive& receive)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<std::shared_ptr<Receive>> EndReceives(
      const BufKey& first, absl::FunctionRef<bool(const ExecKey&)> concerns,
      const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<std::shared_ptr<Receive>> EndReceivesOf(
      const ExecKey& exec, const absl::Status& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<std::shared_ptr<Receive>> EndReceivesOf(
      int64_t step_id, const absl::Status& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CancelReceives(const std::vector<std::shared_ptr<Receive>>& receives)
      ABSL_LOCKS_EXCLUDED(mu_);

  // What other tasks say. Errors: also those of GroupDirectory::Find().
  absl::Status CancelKnown(const ControlCaller& caller, const ExecKey& exec,
                           const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);
  void ApplyEarlyCancels(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  BufRendezvous rendezvous_;
  mutable Mutex mu_;
  absl::flat_hash_map<BufKey, std::shared_ptr<Served>> served_
      ABSL_GUARDED_BY(mu_);
  // Of each task.
  absl::flat_hash_map<int, size_t> num_served_ ABSL_GUARDED_BY(mu_);

  // In order, so that who ends one execution does not walk over all others'.
  absl::btree_map<BufKey, std::shared_ptr<Receive>, Order> receives_
      ABSL_GUARDED_BY(mu_);

  // The one that ForStep() gave for each step, while it lives.
  absl::flat_hash_map<int64_t, PerStepCollectiveRemoteAccess*> steps_
      ABSL_GUARDED_BY(mu_);
  std::deque<ExecKey> ended_executions_ ABSL_GUARDED_BY(mu_);
  EarlyCancels early_cancels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_COLLECTIVE_REMOTE_ACCESS_H_
