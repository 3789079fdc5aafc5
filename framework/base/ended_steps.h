#ifndef TUTTI_FRAMEWORK_BASE_ENDED_STEPS_H_
#define TUTTI_FRAMEWORK_BASE_ENDED_STEPS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "framework/base/number_map.h"

namespace tutti {

// ABORTED: the answer to a call or frame that comes late for a step.
absl::Status StepHasEndedError(int64_t step_id);

// Ids of steps that have ended. Ids that follow one another are one run, so a
// step sequence takes one entry, however many steps it has.
//
// Remembers at least the `max_runs` runs that were begun last, and fewer than
// twice as many, in some 50 bytes each. Not thread-safe.
class EndedSteps {
 public:
  explicit EndedSteps(size_t max_runs = size_t{1} << 12)
      : max_runs_(max_runs) {}

  // Idempotent.
  void Add(int64_t step_id);

  bool Contains(int64_t step_id) const {
    const auto number = static_cast<uint64_t>(step_id);
    return recent_.Contains(number) || older_.Contains(number);
  }

  size_t num_runs() const { return recent_.num_runs() + older_.num_runs(); }

 private:
  const size_t max_runs_;
  NumberSet recent_;
  NumberSet older_;  // Former value of `recent_`.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_ENDED_STEPS_H_
