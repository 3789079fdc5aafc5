#ifndef TUTTI_FRAMEWORK_EXECUTOR_DEPENDENCY_TRACKER_H_
#define TUTTI_FRAMEWORK_EXECUTOR_DEPENDENCY_TRACKER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "tutti/collective.h"
#include "tutti/environment.h"

namespace tutti {

// Lets executions wait until others have been launched. Thread-safe; callbacks
// run with no lock held, on the thread of the launch or of the one that
// cancels.
class DependencyTracker {
 public:
  // Whether all members of this process have launched execution `number` of
  // `id`. Once true it stays true.
  using HasLaunched = std::function<bool(InstanceId id, uint64_t number)>;

  explicit DependencyTracker(HasLaunched has_launched)
      : has_launched_(std::move(has_launched)) {}

  // What waits ends with CANCELLED.
  ~DependencyTracker();
  DependencyTracker(const DependencyTracker&) = delete;
  DependencyTracker& operator=(const DependencyTracker&) = delete;

  // HasLaunched() may have become true for an execution of `id`. One load if
  // nobody waits.
  void Launched(InstanceId id) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `ready` once: with OK when execution `number` of each of
  // `dependencies` has been launched, or with the reason when `cancellation` is
  // set, whichever comes first; inside this call if that is so already, or once
  // the `ready` that makes this call has ended. `cancellation` lives until
  // then.
  void WaitFor(const std::vector<InstanceId>& dependencies, uint64_t number,
               Cancellation& cancellation, StatusCallback ready)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Executions that are waited for, each counted for each wait.
  size_t num_waiting() const { return num_waiting_; }

 private:
  // One call of WaitFor().
  struct Wait {
    uint64_t number = 0;
    Cancellation* cancellation = nullptr;
    StatusCallback ready;

    // Guarded by the tracker's mutex.
    bool begun = false;  // WaitFor() has done its part.
    bool over = false;
    std::vector<InstanceId> missing;  // May name one twice.
    Cancellation::WatchId watch = 0;
  };
  using WaitPtr = std::shared_ptr<Wait>;

  // Nothing, if the wait is over.
  void End(const WaitPtr& wait, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  const HasLaunched has_launched_;
  std::atomic<size_t> num_waiting_{0};  // Entries of waiting_.
  Mutex mu_;
  absl::flat_hash_map<InstanceId, std::vector<WaitPtr>> waiting_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_DEPENDENCY_TRACKER_H_
