#ifndef TUTTI_NAMED_TENSORS_COORDINATOR_TABLE_H_
#define TUTTI_NAMED_TENSORS_COORDINATOR_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "named_tensors/coordinator_server.h"
#include "named_tensors/rank_coordinator.h"
#include "tutti/cluster_runtime.h"

namespace tutti {

// Coordinators of a task, by key. Key 0 is the coordinator of all tasks. Gives
// each call of another task to the server of its coordinator. The first call of
// any rank makes the server: other ranks may come before this one.
//
// Thread-safe. Calls out with no lock held, except to make a server.
class CoordinatorTable : public ControlService {
 public:
  // Bound on the servers made for calls of one task, for coordinators that this
  // task has not created. Calls of all processes of the task count.
  static constexpr int kMaxAhead = 16;

  using MakeServer = std::function<std::shared_ptr<CoordinatorServer>(
      int64_t key, const std::vector<int>& tasks)>;

  CoordinatorTable(ClusterSpec cluster, MakeServer make_server)
      : cluster_(std::move(cluster)), make_server_(std::move(make_server)) {}

  // Returns the server; null if another task decides. A server outlives its
  // coordinator here, for the other ranks. Errors: INVALID_ARGUMENT for an
  // invalid key or invalid tasks; ALREADY_EXISTS if the key was used here;
  // FAILED_PRECONDITION if other ranks gave other tasks: their requests then
  // end with this error, too, and the key is used up.
  absl::StatusOr<std::shared_ptr<CoordinatorServer>> Create(
      int64_t key, const std::vector<int>& tasks) ABSL_LOCKS_EXCLUDED(mu_);

  // Sets the coordinator. REQUIRES: the key was created.
  void Set(int64_t key, std::weak_ptr<RankCoordinator> coordinator)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Coordinators that have not been destroyed: all, or the one of the key.
  std::vector<std::shared_ptr<RankCoordinator>> Living(
      std::optional<int64_t> key = std::nullopt) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all coordinators, and all calls that wait here.
  void End(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Errors: FAILED_PRECONDITION if this task does not decide for the
  // coordinator, or the caller gives other tasks; INVALID_ARGUMENT and
  // RESOURCE_EXHAUSTED if no server can be made; errors of
  // CoordinatorServer::Handle().
  void Handle(const ControlCaller& caller, const proto::ControlRequest& request,
              std::shared_ptr<Cancellation> withdrawn,
              ControlDone done) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Entry {
    std::vector<int> tasks;  // By rank.
    int first_caller = 0;    // Task whose call, or Create(), made the entry.
    bool is_created = false;
    std::shared_ptr<CoordinatorServer> server;
    std::weak_ptr<RankCoordinator> coordinator;
  };

  absl::StatusOr<std::shared_ptr<CoordinatorServer>> ServerFor(
      int64_t key, const std::vector<int>& tasks, int caller)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Finds or makes the entry. Errors: as Handle().
  absl::StatusOr<Entry*> EntryOf(int64_t key, const std::vector<int>& tasks,
                                 int caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckTasks(int64_t key, const std::vector<int>& tasks,
                          int caller) const;

  const ClusterSpec cluster_;
  const MakeServer make_server_;
  Mutex mu_;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<int64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_COORDINATOR_TABLE_H_
