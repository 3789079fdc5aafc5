#ifndef TUTTI_FRAMEWORK_EXECUTOR_EXECUTOR_CORE_H_
#define TUTTI_FRAMEWORK_EXECUTOR_EXECUTOR_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/executor/any_receives.h"
#include "framework/executor/dependency_tracker.h"
#include "framework/executor/execution_table.h"
#include "framework/peer/message_key.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

struct ExecutorOptions {
  Environment environment;
  const DeviceManager* devices = nullptr;
  std::shared_ptr<ParamResolverInterface> param_resolver;
  std::unique_ptr<PeerAccessInterface> peers;
  int64_t step_id = 0;

  // May be null.
  std::shared_ptr<CollectiveObserver> observer;

  // Same as CollectiveExecutorMgr::Options::past_caches_from_bytes.
  int64_t past_caches_from_bytes = kPastCachesFromBytes;

  // Largest number of entries to remember; see ExecutionTable.
  size_t max_entries = size_t{1} << 19;
};

std::shared_ptr<CollectiveExecutor> MakeCollectiveExecutor(
    ExecutorOptions options);

// State of a CollectiveExecutor: the executions of its step, the order of their
// launches, and its end.
//
// Thread-safe. Belongs to the executor, which every execution keeps.
class ExecutorCore {
 public:
  explicit ExecutorCore(ExecutorOptions options);
  ~ExecutorCore();
  ExecutorCore(const ExecutorCore&) = delete;
  ExecutorCore& operator=(const ExecutorCore&) = delete;

  const ExecutorOptions& options() const { return options_; }
  const Cancellation& aborted() const { return aborted_; }
  ExecutionTable& executions() { return executions_; }  // Of collectives.
  ExecutionTable& messages() { return messages_; }
  ExecutionTable& TableOf(uint64_t number) {
    return number < kMessages ? executions_ : messages_;
  }
  AnyReceives& any_receives() { return any_receives_; }
  DependencyTracker& dependencies() { return dependencies_; }

  // Implement the functions of CollectiveExecutor.
  void StartAbort(absl::Status reason);
  void FailExecution(Execution& execution, absl::Status status);

  // Ends the execution whose transfers run by that key. Its members here may
  // wait for each other, or for dependencies.
  void OnEndedByPeer(const ExecKey& exec, const absl::Status& reason);

  // Returns OK unless step, group or execution have ended. REQUIRES: the table
  // has the execution's key. Any later end of the three then finds the member.
  // Each has a separate Cancellation: in a chain, every execution would have to
  // register with its group, because callers watch the execution.
  absl::Status StatusOf(const SettledFacts& settled,
                        const CollectiveContext& context) const;

  // Ends this step's executions of `group` when the group ends, and does not
  // outlive the step. `executor` owns this core.
  void WatchGroup(const CollGroupParams& group,
                  std::weak_ptr<CollectiveExecutor> executor)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Reports to the observer that a member's part has ended with OK. `shown`
  // runs when the observer has read the result. REQUIRES: there is an observer.
  void ShowObserver(const CollectiveContext& context,
                    const CollectiveRequest& request, Work shown);

  // Member's part in an execution, at its end.
  struct Part {
    Execution* execution = nullptr;
    bool has_launched = false;
  };
  // Leaves the execution, which may be gone afterwards, and runs `done`: at
  // once, or together with other members (JointEnd).
  void EndPart(const Part& part, absl::Status status, StatusCallback&& done);

  // Keeps the executor, which may be gone without it.
  using Owner = std::shared_ptr<const void>;
  Owner Leave(Execution& execution, const ExecutionTable::Leaving& leaving);

  // Lets members of `execution` leave together, at the cost of one. While a
  // JointEnd lives, it collects the members whose part ends with OK on this
  // thread. Their callbacks run at once; the destructor leaves for all of them.
  // Only for groups that are in this process alone: members elsewhere would
  // hear of a failure that happens in between.
  class JointEnd {
   public:
    explicit JointEnd(Execution& execution);
    ~JointEnd();
    JointEnd(const JointEnd&) = delete;
    JointEnd& operator=(const JointEnd&) = delete;

   private:
    friend class ExecutorCore;

    Execution& execution_;          // Valid until the last member has left.
    ExecutorCore* core_ = nullptr;  // Core of the members' executor.
    size_t num_unlaunched_ = 0;
    size_t num_members_ = 0;
    JointEnd* const outer_;
  };

 private:
  void CancelTransfers(Execution& execution);

  const ExecutorOptions options_;
  Cancellation aborted_;
  ExecutionTable executions_;
  ExecutionTable messages_;
  AnyReceives any_receives_{*this};
  DependencyTracker dependencies_;
  Mutex mu_;
  absl::flat_hash_map<std::shared_ptr<Cancellation>, Cancellation::WatchId>
      watched_groups_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_EXECUTOR_CORE_H_
