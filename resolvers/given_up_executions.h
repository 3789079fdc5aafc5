#ifndef TUTTI_RESOLVERS_GIVEN_UP_EXECUTIONS_H_
#define TUTTI_RESOLVERS_GIVEN_UP_EXECUTIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/buf_key.h"
#include "framework/collective_request.h"
#include "framework/mutex.h"
#include "framework/param_resolver.h"

namespace tutti {

// The execution that a call is part of, of generation 0: of any.
ExecKey KeyOf(InstanceId instance, CallNumber number);

// Executions that a member gave up before their instance was settled, as far as
// it knew: whoever comes to one ends with the same reason, instead of waiting
// for a member that does not. Keys are of generation 0.
//
// Keeps the newest `max_entries`, about 400 bytes each, and as many numbers of
// steps that are over. Thread-safe; calls nobody.
class GivenUpExecutions {
 public:
  explicit GivenUpExecutions(size_t max_entries = size_t{1} << 16)
      : max_entries_(max_entries) {}

  struct Entry {
    ExecKey execution;
    absl::Status reason;
  };

  // The first reason stays. False if there was one.
  bool Add(const ExecKey& execution, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // A member of this task gave it up, in that beginning of the step. False also
  // if the step is over on all tasks or has begun anew since.
  bool AddOwn(const ExecKey& execution, const absl::Status& reason,
              uint64_t beginning) ABSL_LOCKS_EXCLUDED(mu_);

  // Why it was given up; OK if it was not.
  absl::Status Find(const ExecKey& execution) ABSL_LOCKS_EXCLUDED(mu_);

  // In the order in which they came: of a group; own ones.
  std::vector<Entry> OfGroup(GroupKey group) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<Entry> Own() ABSL_LOCKS_EXCLUDED(mu_);

  // The step is over, here or on all tasks, until it begins anew. Both forget
  // what was given up in it before. Each beginning here has a number of its
  // own.
  enum class Where : uint8_t { kHere, kOnAllTasks };
  void EndStep(int64_t step_id, Where where) ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t BeginStep(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsOver(int64_t step_id, Where where) ABSL_LOCKS_EXCLUDED(mu_);

  // Another task is in the step, which goes on if it is over no further than
  // `where`. If it was over on all tasks, it has begun anew there: what was
  // given up before is forgotten, and members of this task give nothing up in
  // it before it begins here, too. Else what was given up since stays.
  void ContinueStep(int64_t step_id, Where where) ABSL_LOCKS_EXCLUDED(mu_);

  size_t size() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Known {
    absl::Status reason;
    bool is_own = false;
  };
  struct Ended {
    Where where = Where::kHere;
    bool goes_on_elsewhere = false;  // Having been over on all tasks.
  };

  bool AddLocked(const ExecKey& execution, const absl::Status& reason,
                 bool is_own) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_entries_;
  Mutex mu_;
  absl::flat_hash_map<ExecKey, Known> known_ ABSL_GUARDED_BY(mu_);
  std::deque<ExecKey> order_ ABSL_GUARDED_BY(mu_);  // Of `known_`.
  uint64_t num_beginnings_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<int64_t, uint64_t> beginnings_  // Of steps that run here.
      ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<int64_t, Ended> ended_steps_ ABSL_GUARDED_BY(mu_);
  std::deque<int64_t> steps_order_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_GIVEN_UP_EXECUTIONS_H_
