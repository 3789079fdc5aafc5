#ifndef TUTTI_FRAMEWORK_DEPENDENCY_TRACKER_H_
#define TUTTI_FRAMEWORK_DEPENDENCY_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "framework/collective_request.h"
#include "framework/mutex.h"

namespace tutti {

// Counts launches of instances and lets later ones wait for them. Remembers the
// last kMaxInstances instances that were launched, and all that somebody waits
// for. Thread-safe; callbacks run with no lock held, on the thread of the
// launch.
class DependencyTracker {
 public:
  // Runs once, or is destroyed with the tracker.
  using Ready = absl::AnyInvocable<void() &&>;

  static constexpr size_t kMaxInstances = 65536;

  DependencyTracker() = default;
  DependencyTracker(const DependencyTracker&) = delete;
  DependencyTracker& operator=(const DependencyTracker&) = delete;

  // One member has launched one more execution of `id`.
  void Launched(InstanceId id) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `ready` when each of `dependencies` has been launched `num_launches`
  // times; inside this call if that is so already.
  void WaitFor(const std::vector<InstanceId>& dependencies,
               uint64_t num_launches, Ready ready) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // One call of WaitFor.
  struct Waiter {
    size_t num_missing = 0;  // Dependencies; guarded by mu_.
    Ready ready;
  };
  struct Waiting {
    uint64_t num_launches = 0;
    std::shared_ptr<Waiter> waiter;
  };
  struct Instance {
    uint64_t num_launches = 0;
    uint64_t last_launch = 0;  // In launches of all instances.
    std::vector<Waiting> waiting;
  };

  void ForgetOldInstances() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  uint64_t num_launches_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<InstanceId, Instance> instances_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEPENDENCY_TRACKER_H_
