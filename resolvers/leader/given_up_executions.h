#ifndef TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_
#define TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/peer/endings.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// Returns the execution that a call is part of, with generation 0, which
// matches every generation.
ExecKey KeyOf(InstanceId instance, CallNumber number);

// Execution that a member gave up, as tasks report it.
struct GivenUp {
  ExecKey execution;  // Has generation 0.
  absl::Status reason;
  bool is_own = false;  // A member of this task gave it up.
};

// Executions that a member gave up before it knew that their instance was
// settled. A later member of such an execution ends with the same reason. It
// does not wait for a member that never comes.
//
// Keeps the newest `max_entries`, about 400 bytes each, until their step ends.
// Its steps end on all tasks, and may have ended in the rendezvous before: this
// task then uses them no more, but others do. Thread-safe; runs no callbacks.
class GivenUpExecutions {
 public:
  explicit GivenUpExecutions(size_t max_entries = size_t{1} << 16)
      : max_entries_(max_entries) {}

  // Adds an execution; the first reason stays. Returns false if it was known
  // before, or if the step has ended: other tasks need no message.
  bool Add(const GivenUp& given_up) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns OK if a member may wait for the execution. Else the reason why it
  // was given up, or StepHasEndedError().
  absl::Status Find(const ExecKey& execution) const {
    return ends_.StatusOf(execution);
  }

  // Return executions in order of arrival: of a group; of members of this task.
  std::vector<GivenUp> OfGroup(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<GivenUp> Own() ABSL_LOCKS_EXCLUDED(mu_);

  // Forgets the executions of the step, which has ended on all tasks.
  void EndStep(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  size_t size() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const size_t max_entries_;
  Endings ends_;
  Mutex mu_;
  std::deque<GivenUp> newest_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_GIVEN_UP_EXECUTIONS_H_
