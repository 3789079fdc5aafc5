#ifndef TUTTI_REMOTE_SERVED_REQUESTS_H_
#define TUTTI_REMOTE_SERVED_REQUESTS_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "framework/peer/buf_rendezvous.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

// Requests of other tasks for bytes that members of this task offer. Checks
// each request; it then waits in the rendezvous. A request may come before this
// process knows its group: then it waits here for a limited time.
//
// Thread-safe. Receiver callbacks run with no lock held. Part of an owner,
// which each waiting request keeps alive.
class ServedRequests {
 public:
  struct Options {
    ClusterSpec cluster;
    Clock* clock = nullptr;  // Outlives the object.
    std::shared_ptr<GroupDirectory> groups;

    // Same as max_waiting_requests and early_ask_lifetime of
    // CollectiveRemoteAccess.
    size_t max_waiting = 0;
    absl::Duration early_lifetime;
  };

  // `rendezvous` outlives the object.
  ServedRequests(Options options, BufRendezvous* rendezvous)
      : options_(std::move(options)), rendezvous_(*rendezvous) {}

  // Handles a request as TransferService::Serve() does. Errors, to the
  // receiver: RESOURCE_EXHAUSTED for one request too many of the task;
  // ALREADY_EXISTS for a waiting key; NOT_FOUND if the group stays unknown;
  // errors of GroupDirectory::Find(), CheckRecvRequest() and
  // BufRendezvous::Consume().
  void Serve(const std::shared_ptr<const void>& owner,
             const ControlCaller& caller, const BufKey& key,
             const RecvRequest& recv) ABSL_LOCKS_EXCLUDED(mu_);

  // Same as TransferService::Withdraw().
  void Withdraw(const BufKey& key, const Receiver* receiver,
                const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Handles a new or ended generation of the group.
  void OnGroupChange(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);

  size_t size() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Request;

  absl::Status Add(const std::shared_ptr<Request>& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Check(const Request& request) const;
  void Advance(const std::shared_ptr<Request>& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  void AwaitGroup(const std::shared_ptr<Request>& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool EndEarly(Request& request) ABSL_LOCKS_EXCLUDED(mu_);
  void End(const std::shared_ptr<Request>& request, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<Request> Remove(Request& request) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  BufRendezvous& rendezvous_;
  mutable Mutex mu_;
  absl::flat_hash_map<BufKey, std::shared_ptr<Request>> requests_
      ABSL_GUARDED_BY(mu_);
  // Number of requests of each task.
  absl::flat_hash_map<int, size_t> num_of_task_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_SERVED_REQUESTS_H_
