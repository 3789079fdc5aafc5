#ifndef TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_LEAVE_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_LEAVE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// The end of a cluster, at which nobody goes before all others are done too: a
// task says Goodbye to the others and waits until each has said so, or is lost.
// To be done with one's own collectives is not enough, for another task's may
// need what this one still has to send.
//
// Thread-safe. `done` runs with no lock held.
class ClusterLeave : public std::enable_shared_from_this<ClusterLeave> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<ControlChannel> channel;
  };

  explicit ClusterLeave(Options options);

  // Errors: DEADLINE_EXCEEDED naming those that did not say Goodbye;
  // FAILED_PRECONDITION while another one waits; the reason of End().
  void Leave(absl::Time deadline, StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends with `reason` what waits, and whoever wants to leave later.
  void End(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // A process of a task is there, perhaps another one than before: it is waited
  // for until it says Goodbye or is lost; if this task is leaving already, by
  // the next Leave(). Each is found once and lost once; the words of it may
  // come in any order.
  void OnGoodbye(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);
  void OnFound(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);
  void OnLost(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Tasks that have not said Goodbye, once this one leaves.
  std::vector<int> WaitsFor() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Its processes, by their incarnations.
  struct Task {
    // Those that were found and not lost: whether it has said Goodbye.
    std::map<uint64_t, bool> present;

    std::set<uint64_t> late;  // Found while this task left, and not lost.

    std::set<uint64_t> goodbye_soon;  // Said so before they were in `present`.
    std::set<uint64_t> lost_soon;     // Lost before they were found.

    bool is_lost = false;    // Nobody is there to be told anything.
    bool has_ended = false;  // One of them said Goodbye or was lost.

    bool is_gone() const {
      return has_ended &&
             std::all_of(present.begin(), present.end(),
                         [](const auto& process) { return process.second; });
    }
  };

  absl::Status MayLeave() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Begin(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnTold(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void EndIfDone() ABSL_LOCKS_EXCLUDED(mu_);
  static void WaitForLate(Task& task);
  void OnDeadline() ABSL_LOCKS_EXCLUDED(mu_);
  std::set<int> Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  Mutex mu_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mu_);
  std::set<int> untold_ ABSL_GUARDED_BY(mu_);  // Have not answered.
  absl::Status end_ ABSL_GUARDED_BY(mu_);      // OK before End().
  StatusCallback done_ ABSL_GUARDED_BY(mu_);
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_LEAVE_H_
