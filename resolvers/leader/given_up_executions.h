#ifndef TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_
#define TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/ended_steps.h"
#include "framework/base/mutex.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// The execution that a call is part of, of generation 0: of any.
ExecKey KeyOf(InstanceId instance, CallNumber number);

// An execution that a member gave up, as tasks tell each other.
struct GivenUp {
  ExecKey execution;  // Of generation 0.
  absl::Status reason;
};

// Executions that a member gave up before their instance was settled, as far as
// it knew: whoever comes to one ends with the same reason, instead of waiting
// for a member that does not.
//
// Keeps the newest `max_entries`, about 400 bytes each, until their step ends;
// of steps that have ended it remembers the ids (EndedSteps). Thread-safe;
// calls nobody.
class GivenUpExecutions {
 public:
  explicit GivenUpExecutions(size_t max_entries = size_t{1} << 16)
      : max_entries_(max_entries) {}

  // The first reason stays. False if there was one, or if the step has ended.
  bool Add(const GivenUp& given_up) ABSL_LOCKS_EXCLUDED(mu_);

  // The same for a member of this task: false if others need not hear of it.
  bool AddOwn(const GivenUp& given_up) ABSL_LOCKS_EXCLUDED(mu_);

  // OK if a member may wait for the execution; else why it was given up, or
  // StepHasEndedError().
  absl::Status Find(const ExecKey& execution) ABSL_LOCKS_EXCLUDED(mu_);

  // In the order in which they came: of a group; own ones.
  std::vector<GivenUp> OfGroup(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<GivenUp> Own() ABSL_LOCKS_EXCLUDED(mu_);

  // The step has ended on all tasks: forgets what was given up in it.
  void EndStep(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  size_t size() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Known {
    absl::Status reason;
    bool is_own = false;
  };

  bool AddLocked(const GivenUp& given_up, bool is_own)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_entries_;
  Mutex mu_;
  absl::flat_hash_map<ExecKey, Known> known_ ABSL_GUARDED_BY(mu_);
  std::deque<ExecKey> order_ ABSL_GUARDED_BY(mu_);  // Of `known_`.
  EndedSteps ended_steps_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_
