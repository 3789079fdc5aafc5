#ifndef TUTTI_REMOTE_COLLECTIVE_REMOTE_ACCESS_H_
#define TUTTI_REMOTE_COLLECTIVE_REMOTE_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "framework/peer/buf_rendezvous.h"
#include "remote/served_requests.h"
#include "remote/transfer_channel.h"
#include "remote/transport.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

class PerStepCollectiveRemoteAccess;

// Moves bytes among the members of groups that span the tasks of a cluster.
// Posted bytes wait in a rendezvous of the sender's process, where local
// receivers and requests of other tasks find them. A receiver whose peer is in
// another task sends its request to that task, as early as its schedule allows.
//
// Thread-safe. Sender and Receiver callbacks run with no lock held: on a thread
// of the side that came second, of the transport, or of the side that cancels.
//
// Every request of another task is checked: its group must live, and its ranks
// must belong to the requesting process and to this one.
//
// Ends are remembered by the rendezvous alone (BufRendezvous::StatusOf).
// Requests to other tasks stand in the transport alone: an end walks them
// there.
class CollectiveRemoteAccess
    : public TransferService,
      public std::enable_shared_from_this<CollectiveRemoteAccess> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<GroupDirectory> groups;
    std::shared_ptr<Transport> transport;

    // Largest number of requests of one other task that wait for an offer of
    // this one; more end with RESOURCE_EXHAUSTED. Each takes a few hundred
    // bytes. Collectives that are started together add up while this task is
    // late.
    size_t max_waiting_requests = size_t{1} << 16;

    // Time for which a request waits until this process knows its group.
    absl::Duration early_request_lifetime = DefaultTime("early request");

    // Largest number of bytes that this task's members offer and no receiver
    // has requested. Past this a member's offer, and with it its collective,
    // ends with RESOURCE_EXHAUSTED. A single offer may be larger if no other
    // offer waits.
    //
    // No bound by default: offered bytes are the members' own tensors, which
    // are not copied. A bound saves no memory, and no other task can make the
    // number grow. An all-to-all or a gather offers all of its payload at once.
    // Collectives that are started together add up for as long as one of the
    // tasks is late: a small bound would fail healthy collectives.
    size_t max_offered_bytes = BufRendezvous::kNoBound;

    // Number of remembered executions that other tasks have ended. A late
    // transfer of a remembered execution ends with its reason.
    size_t max_ended = 4096;
  };

  static std::shared_ptr<CollectiveRemoteAccess> Create(Options options);
  ~CollectiveRemoteAccess() override;

  // Makes the transport of a step, for its executor; the transport keeps this
  // object alive. Call once for each step. Its destruction ends the step here:
  // all later transfers of the step end with StepHasEndedError().
  std::unique_ptr<PeerAccessInterface> ForStep(int64_t step_id)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Handles another task's report that an execution has failed. Errors:
  // PERMISSION_DENIED for a task that is not in the group; errors of
  // GroupDirectory::Find().
  absl::Status CancelFromPeer(const ControlCaller& caller, const ExecKey& exec,
                              const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Handles a new or ended generation of the group. Call from the directory's
  // listener.
  void OnGroupChange(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the step, which has ended on all tasks: its transfers, also later
  // ones, end with StepHasEndedError(). Later failures of the step are not
  // reported to other tasks. Idempotent.
  void EndStep(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  void Serve(std::shared_ptr<ServedRequest> request) override;
  void Withdraw(const std::shared_ptr<ServedRequest>& request,
                absl::Status reason) override;

  // For tests and reports: waiting requests of other tasks; receives of this
  // task under way.
  size_t num_served() const { return served_.size(); }
  size_t num_receiving() const;

 private:
  friend class PerStepCollectiveRemoteAccess;

  explicit CollectiveRemoteAccess(Options options);

  // Calls of PerStepCollectiveRemoteAccess.
  void Recv(const CollGroupMember& peer, const BufKey& key,
            const RecvRequest& recv);
  std::string DescribeWaiting(const CollGroupParams& group,
                              const ExecKey& exec);
  void Remove(const PerStepCollectiveRemoteAccess& step, int64_t step_id)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends waiting and late transfers. Returns false if that is not the first end
  // of the scope (BufRendezvous::End).
  bool End(const EndScope& scope, absl::Status reason);
  void EndStep(int64_t step_id, absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the transfers under way of the scope, which the rendezvous has ended.
  // Returns false, and does nothing, if it had ended them before.
  bool Report(const EndScope& scope, const BufRendezvous::Ended& ended);

  std::set<int> OtherTasksOf(const CollGroupParams& group) const;
  void ReportToOthers(const CollGroupParams& group, const ExecKey& exec,
                      const absl::Status& reason);

  const Options options_;
  BufRendezvous rendezvous_;
  ServedRequests served_;
  Mutex mu_;

  // Living transports made by ForStep(), by step.
  absl::flat_hash_map<int64_t, PerStepCollectiveRemoteAccess*> steps_
      ABSL_GUARDED_BY(mu_);
  std::deque<ExecKey> ended_executions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_COLLECTIVE_REMOTE_ACCESS_H_
