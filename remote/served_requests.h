#ifndef TUTTI_REMOTE_SERVED_REQUESTS_H_
#define TUTTI_REMOTE_SERVED_REQUESTS_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_directory.h"
#include "framework/peer/buf_rendezvous.h"
#include "remote/transfer_channel.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

// Requests of other tasks for bytes that members of this task offer. Checks and
// counts each request; it then waits in the rendezvous. A request may come
// before this process knows its group: then it waits here for a limited time.
//
// Thread-safe. Answers with no lock held. Part of an owner, which each waiting
// request keeps alive.
class ServedRequests {
 public:
  struct Options {
    ClusterSpec cluster;
    Clock* clock = nullptr;  // Outlives the object.
    std::shared_ptr<GroupDirectory> groups;

    // Same as max_waiting_requests and early_request_lifetime of
    // CollectiveRemoteAccess.
    size_t max_waiting = 0;
    absl::Duration early_lifetime;
  };

  // `rendezvous` outlives the object.
  ServedRequests(Options options, BufRendezvous* rendezvous)
      : options_(std::move(options)), rendezvous_(*rendezvous) {}

  // Same as TransferService::Serve(). A member of this task must send the bytes
  // to a member of the caller, which must have the incarnation that the group
  // has. Errors, to the caller: RESOURCE_EXHAUSTED for one request too many of
  // the task; NOT_FOUND if the group stays unknown; INVALID_ARGUMENT if the
  // ranks are not in the group, or the sender not in this task;
  // PERMISSION_DENIED if the receiver is another task's; FAILED_PRECONDITION if
  // the caller has restarted since; errors of GroupDirectory::Find() and
  // BufRendezvous::Consume().
  void Serve(const std::shared_ptr<const void>& owner,
             const std::shared_ptr<ServedRequest>& request)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Same as TransferService::Withdraw().
  void Withdraw(const std::shared_ptr<ServedRequest>& request,
                const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Handles a new or ended generation of the group.
  void OnGroupChange(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);

  size_t size() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class ServedRequest;
  using RequestPtr = std::shared_ptr<ServedRequest>;

  absl::Status CountIn(int task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountOut(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void Advance(const RequestPtr& request) ABSL_LOCKS_EXCLUDED(mu_);
  void AwaitGroup(const RequestPtr& request) ABSL_LOCKS_EXCLUDED(mu_);
  bool EndEarly(const RequestPtr& request) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  BufRendezvous& rendezvous_;
  mutable Mutex mu_;
  // Number of requests of each task.
  absl::flat_hash_map<int, size_t> num_of_task_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<RequestPtr> early_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_SERVED_REQUESTS_H_
