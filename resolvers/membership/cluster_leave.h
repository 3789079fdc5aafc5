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

// Joint end of a cluster: no task leaves before all others are done too. Each
// task says Goodbye to the others, and waits until each has said Goodbye or is
// lost. A task that is done with its own collectives must still wait: other
// tasks may need data that it still has to send.
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

  // Waits for the end of all tasks. Errors: DEADLINE_EXCEEDED naming the tasks
  // that did not say Goodbye; FAILED_PRECONDITION while another Leave() waits;
  // the reason of End().
  void Leave(absl::Time deadline, StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the waiting Leave() and all later ones with `reason`.
  void End(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Handle reports about a process of a task, perhaps a new one. Leave() waits
  // for a found process until it says Goodbye or is lost. If this task is
  // already leaving, only the next Leave() waits for it. Each process is found
  // once and lost once; the reports may come in any order.
  void OnGoodbye(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);
  void OnFound(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);
  void OnLost(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the tasks that have not said Goodbye; empty unless this task is
  // leaving.
  std::vector<int> WaitsFor() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Processes of a task, by incarnation.
  struct Task {
    // Found and not lost; true if the process has said Goodbye.
    std::map<uint64_t, bool> present;

    std::set<uint64_t> late;  // Found while this task left, and not lost.

    std::set<uint64_t> goodbye_soon;  // Goodbye before `present`.
    std::set<uint64_t> lost_soon;     // Lost before they were found.

    bool is_lost = false;    // No process is there to get a message.
    bool has_ended = false;  // A process said Goodbye or was lost.

    bool is_gone() const {
      return has_ended &&
             std::all_of(present.begin(), present.end(),
                         [](const auto& process) { return process.second; });
    }
  };

  absl::Status MayLeave() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Begin(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnReported(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void EndIfDone() ABSL_LOCKS_EXCLUDED(mu_);
  static void WaitForLate(Task& task);
  void OnDeadline() ABSL_LOCKS_EXCLUDED(mu_);
  std::set<int> Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  Mutex mu_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mu_);
  std::set<int> unreported_ ABSL_GUARDED_BY(mu_);  // Have not answered.
  absl::Status end_ ABSL_GUARDED_BY(mu_);          // OK before End().
  StatusCallback done_ ABSL_GUARDED_BY(mu_);
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_LEAVE_H_
