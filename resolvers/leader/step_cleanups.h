#ifndef TUTTI_RESOLVERS_LEADER_STEP_CLEANUPS_H_
#define TUTTI_RESOLVERS_LEADER_STEP_CLEANUPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tutti {

// The last clean-up of each step on all tasks that this task has heard of. A
// step may begin anew with the same id: tasks that say which clean-up they knew
// of can tell what is said of it from what is late.
//
// Clean-ups have numbers: who begins one takes a larger one than all it has
// heard of, of whichever step, as by the clocks of L. Lamport ("Time, Clocks,
// and the Ordering of Events in a Distributed System", CACM 1978). Of several
// of a step that begin at the same time the largest is the last, on all tasks.
//
// Remembers the `max_entries` that came last, in some 50 bytes each; of other
// steps, that all of theirs are past. Not thread-safe.
class StepCleanups {
 public:
  explicit StepCleanups(size_t max_entries) : max_entries_(max_entries) {}

  // The largest number of all.
  uint64_t last() const { return last_; }

  void Add(int64_t step_id, uint64_t number);

  // All up to that number began before this task took part in anything.
  void Skip(uint64_t number);

  // What this task knows of, for others to hear.
  uint64_t LastOf(int64_t step_id) const;

  // Whether who knew of that one alone spoke before the last that this task
  // knows of.
  bool IsLate(int64_t step_id, uint64_t number) const;

 private:
  struct Known {
    uint64_t last = 0;
    uint64_t turn = 0;  // When it was heard of, among those of all steps.
  };

  const size_t max_entries_;
  uint64_t last_ = 0;
  uint64_t past_ = 0;  // Those of steps that are not in `steps_`.
  uint64_t num_turns_ = 0;
  absl::flat_hash_map<int64_t, Known> steps_;
  std::deque<std::pair<int64_t, uint64_t>> turns_;  // Step and turn.
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_STEP_CLEANUPS_H_
