#include "framework/base/ended_steps.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status StepHasEndedError(int64_t step_id) {
  return absl::AbortedError(
      absl::StrCat("step ", step_id, " has been cleaned up"));
}

void EndedSteps::Add(int64_t step_id) {
  if (Contains(step_id)) return;
  recent_.Insert(static_cast<uint64_t>(step_id));
  if (recent_.num_runs() < max_runs_) return;
  older_ = std::exchange(recent_, NumberSet());
}

}  // namespace tutti
