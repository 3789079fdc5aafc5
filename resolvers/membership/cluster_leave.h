#ifndef TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_LEAVE_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_LEAVE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/leadership.h"
#include "resolvers/membership/held_answers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Joint end of a cluster: no task leaves before all others are done too. A task
// that is done with its own collectives must still wait: other tasks may need
// data that it still has to send.
//
// Each task says Goodbye to the leader. The leader answers that all may leave
// once each task has said so, or is lost. If the leader is lost, its tasks say
// it to the next one. A task that finds all others gone leaves too.
//
// Thread-safe. `done` runs with no lock held.
class ClusterLeave : public std::enable_shared_from_this<ClusterLeave> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<ControlChannel> channel;
    std::shared_ptr<const Leadership> leadership;
    absl::Duration hold = DefaultTime("hold");  // Of the leader's answer.

    // Runs when WaitsFor() changes. May be null.
    std::function<void()> waits_changed;
  };

  static std::shared_ptr<ClusterLeave> Create(Options options);

  // Waits for the end of all tasks. Errors: DEADLINE_EXCEEDED naming who is not
  // done, or the leader if it does not answer; FAILED_PRECONDITION while
  // another Leave() waits; the reason of End().
  void Leave(absl::Time deadline, StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the waiting Leave() and all later ones with `reason`.
  void End(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Handles another task's Goodbye. Errors: UNAVAILABLE if this task does not
  // lead; those of HeldAnswers::Add().
  void OnGoodbye(const ControlCaller& process, const proto::Goodbye& message,
                 const std::shared_ptr<Cancellation>& withdrawn,
                 ControlDone done) ABSL_LOCKS_EXCLUDED(mu_);

  // Handle reports about a process of a task, perhaps a new one. A leader waits
  // for a found process until it says Goodbye or is lost. If this task is
  // already leaving, only the next Leave() waits for it. Each process is found
  // once and lost once; the reports may come in any order.
  void OnFound(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);
  void OnLost(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the tasks that Leave() depends on; empty unless this task is
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

    bool has_ended = false;  // A process said Goodbye or was lost.

    bool is_gone() const {
      return has_ended &&
             std::all_of(present.begin(), present.end(),
                         [](const auto& process) { return process.second; });
    }
  };

  // Waiting Leave(), which ends when it is taken.
  struct Waiting {
    StatusCallback done;
    absl::Time deadline;
    Clock::AlarmId alarm = 0;

    // Goodbye to the leader: under way, or soon.
    int leader = -1;  // -1: none.
    std::shared_ptr<Cancellation> call;
    Clock::AlarmId say_again = 0;

    std::string obstacle;  // What the last answer says.
  };
  using WaitingPtr = std::shared_ptr<Waiting>;

  explicit ClusterLeave(Options options);
  absl::Status MayLeave() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Leads() const;
  void SayGoodbye() ABSL_LOCKS_EXCLUDED(mu_);
  void NotifyWaits() {
    if (options_.waits_changed != nullptr) options_.waits_changed();
  }
  void OnReply(const WaitingPtr& leave, const ControlAnswer& reply)
      ABSL_LOCKS_EXCLUDED(mu_);
  ControlAnswer Reply(const ControlCaller& caller) ABSL_LOCKS_EXCLUDED(mu_);
  void EndIfDone() ABSL_LOCKS_EXCLUDED(mu_);
  static void WaitForLate(Task& task);
  void OnDeadline() ABSL_LOCKS_EXCLUDED(mu_);
  WaitingPtr Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void Finish(const WaitingPtr& leave, absl::Status status);

  // Return the tasks that are not gone, and those that live and do not know yet
  // that all may leave: the first `most`.
  std::vector<int> Missing(size_t most) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<int> Untold(size_t most) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string LabelsOf(const std::vector<int>& tasks) const;

  const Options options_;
  std::shared_ptr<HeldAnswers> answers_;
  Mutex mu_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mu_);
  std::set<int> told_ ABSL_GUARDED_BY(mu_);  // Know that all may leave.
  absl::Status end_ ABSL_GUARDED_BY(mu_);    // OK before End().
  WaitingPtr leave_ ABSL_GUARDED_BY(mu_);    // Null: this task does not leave.
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_LEAVE_H_
