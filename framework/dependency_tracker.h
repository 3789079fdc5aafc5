#ifndef TUTTI_FRAMEWORK_DEPENDENCY_TRACKER_H_
#define TUTTI_FRAMEWORK_DEPENDENCY_TRACKER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "framework/collective_request.h"
#include "framework/mutex.h"

namespace tutti {

// Lets executions wait until others have been launched. Thread-safe; callbacks
// run with no lock held, on the thread of the launch.
class DependencyTracker {
 public:
  // Whether all members of this process have launched execution `number` of
  // `id`. Once true it stays true.
  using HasLaunched = std::function<bool(InstanceId id, uint64_t number)>;

  // Runs once, or is destroyed with the tracker.
  using Ready = absl::AnyInvocable<void() &&>;

  explicit DependencyTracker(HasLaunched has_launched)
      : has_launched_(std::move(has_launched)) {}
  DependencyTracker(const DependencyTracker&) = delete;
  DependencyTracker& operator=(const DependencyTracker&) = delete;

  // HasLaunched() may have become true for an execution of `id`. One load if
  // nobody waits.
  void Launched(InstanceId id) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `ready` when execution `number` of each of `dependencies` has been
  // launched; inside this call if that is so already, or once the `ready` that
  // makes this call has ended.
  void WaitFor(const std::vector<InstanceId>& dependencies, uint64_t number,
               Ready ready) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // One call of WaitFor().
  struct Waiter {
    size_t num_missing = 0;  // Dependencies, and one for the call itself.
    Ready ready;
  };
  struct Waiting {
    uint64_t number = 0;
    std::shared_ptr<Waiter> waiter;
  };

  const HasLaunched has_launched_;
  std::atomic<size_t> num_waiting_{0};
  Mutex mu_;
  absl::flat_hash_map<InstanceId, std::vector<Waiting>> waiting_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEPENDENCY_TRACKER_H_
