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

// Lets executions wait until other executions have been launched. Thread-safe.
// Callbacks run with no lock held, on the thread that launches or cancels.
class DependencyTracker {
 public:
  // Returns whether all members of this process have launched execution
  // `number` of `id`. Once true it stays true.
  using HasLaunched = std::function<bool(InstanceId id, uint64_t number)>;

  explicit DependencyTracker(HasLaunched has_launched)
      : has_launched_(std::move(has_launched)) {}

  // Ends every wait with CANCELLED.
  ~DependencyTracker();
  DependencyTracker(const DependencyTracker&) = delete;
  DependencyTracker& operator=(const DependencyTracker&) = delete;

  // Checks the waits for `id`: HasLaunched() may have become true for an
  // execution of `id`. Costs one load if nobody waits.
  //
  // Every wait is counted before its condition is checked. Thus either this
  // load sees the wait, or that check sees the launch.
  void Launched(InstanceId id) ABSL_LOCKS_EXCLUDED(mu_) {
    if (num_waiting_.load(std::memory_order_seq_cst) != 0) CheckWaits(id);
  }

  // Runs `ready` once, with the event that comes first:
  // - OK when execution `number` of each of `dependencies` has been launched;
  // - the reason when `cancellation` is set.
  // If the event has already come, `ready` runs inside this call. If another
  // `ready` makes this call, the new `ready` runs after that one ends.
  // `cancellation` must live until `ready` runs.
  void WaitFor(const std::vector<InstanceId>& dependencies, uint64_t number,
               Cancellation& cancellation, StatusCallback ready)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Number of waited-for executions. An execution counts once for each wait.
  size_t num_waiting() const { return num_waiting_; }

 private:
  // State of one WaitFor() call.
  struct Wait {
    uint64_t number = 0;
    Cancellation* cancellation = nullptr;
    StatusCallback ready;

    // Guarded by the tracker's mutex.
    bool begun = false;  // Set when WaitFor() has done its part.
    bool over = false;
    std::vector<InstanceId> missing;  // May name an instance twice.
    Cancellation::WatchId watch = 0;
  };
  using WaitPtr = std::shared_ptr<Wait>;

  void CheckWaits(InstanceId id) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the wait with `status`; does nothing if the wait is over.
  void End(const WaitPtr& wait, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  const HasLaunched has_launched_;
  std::atomic<size_t> num_waiting_{0};  // Number of entries of waiting_.
  Mutex mu_;
  absl::flat_hash_map<InstanceId, std::vector<WaitPtr>> waiting_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_DEPENDENCY_TRACKER_H_
