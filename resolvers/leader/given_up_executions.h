#ifndef TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_
#define TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "resolvers/leader/step_cleanups.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// The execution that a call is part of, of generation 0: of any.
ExecKey KeyOf(InstanceId instance, CallNumber number);

// That a member gave an execution up, as tasks tell each other.
struct GivenUp {
  ExecKey execution;  // Of generation 0.
  absl::Status reason;
  uint64_t last_cleanup = 0;  // Of its step, that the member's task knew of.
};

// Executions that a member gave up before their instance was settled, as far as
// it knew: whoever comes to one ends with the same reason, instead of waiting
// for a member that does not.
//
// A step that has been cleaned up on all tasks may begin anew. What was given
// up before is not of the executions that it begins then, and whoever is told
// of that late ignores it.
//
// Keeps the newest `max_entries`, about 400 bytes each, and as many numbers of
// steps that are over. Thread-safe; calls nobody.
class GivenUpExecutions {
 public:
  explicit GivenUpExecutions(size_t max_entries = size_t{1} << 16)
      : max_entries_(max_entries), cleanups_(max_entries) {}

  // The first reason stays. False if there was one, or if it is too late.
  bool Add(const GivenUp& given_up) ABSL_LOCKS_EXCLUDED(mu_);

  // A member of this task gave it up, in that beginning of the step. What other
  // tasks are to hear: nothing where Add() is false, or the step is over on all
  // tasks or has begun anew since.
  std::optional<GivenUp> AddOwn(const ExecKey& execution,
                                const absl::Status& reason, uint64_t beginning)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Why it was given up, in the step as it is now; OK if it was not.
  absl::Status Find(const ExecKey& execution) ABSL_LOCKS_EXCLUDED(mu_);

  // The same for a task that knew of that clean-up of the step; ABORTED if it
  // asks too late.
  absl::Status Find(const ExecKey& execution, uint64_t last_cleanup)
      ABSL_LOCKS_EXCLUDED(mu_);

  static absl::Status CleanedUp(int64_t step_id);  // ABORTED.

  // In the order in which they came: of a group; own ones.
  std::vector<GivenUp> OfGroup(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<GivenUp> Own() ABSL_LOCKS_EXCLUDED(mu_);

  // The step is over, here or on all tasks, until it begins anew. Both forget
  // what was given up in it before. Each clean-up on all tasks has a number,
  // which is larger than LastCleanup() of the task that begins it; each
  // beginning here has one of its own.
  void EndStep(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);
  void EndStepEverywhere(int64_t step_id, uint64_t cleanup)
      ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t BeginStep(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  // And has not begun anew here.
  bool IsOverOnAllTasks(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  // That this task has heard of: of any step; of one.
  uint64_t LastCleanup() ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t LastCleanupOf(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  // Whether who knew of that one alone spoke before the step's last.
  bool IsLate(int64_t step_id, uint64_t cleanup) ABSL_LOCKS_EXCLUDED(mu_);

  // All up to that one began before this task took part in anything.
  void SkipCleanups(uint64_t number) ABSL_LOCKS_EXCLUDED(mu_);

  size_t size() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Known {
    absl::Status reason;
    uint64_t last_cleanup = 0;
    bool is_own = false;
  };

  bool AddLocked(const GivenUp& given_up, bool is_own)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status FindLocked(const ExecKey& execution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddEnded(int64_t step_id, uint64_t beginning)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // What was given up after earlier clean-ups.
  void Forget(int64_t step_id, uint64_t cleanup)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_entries_;
  Mutex mu_;
  absl::flat_hash_map<ExecKey, Known> known_ ABSL_GUARDED_BY(mu_);
  std::deque<ExecKey> order_ ABSL_GUARDED_BY(mu_);  // Of `known_`.
  StepCleanups cleanups_ ABSL_GUARDED_BY(mu_);
  uint64_t num_beginnings_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<int64_t, uint64_t> beginnings_  // Of steps that run here.
      ABSL_GUARDED_BY(mu_);

  // The last beginnings of steps that are over here alone; of those that are
  // over on all tasks none counts.
  absl::flat_hash_map<int64_t, uint64_t> ended_steps_ ABSL_GUARDED_BY(mu_);
  std::deque<int64_t> steps_order_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_
