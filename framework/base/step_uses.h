#ifndef TUTTI_FRAMEWORK_BASE_STEP_USES_H_
#define TUTTI_FRAMEWORK_BASE_STEP_USES_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/last_holder.h"
#include "framework/base/mutex.h"

namespace tutti {

// Uses of steps that have not ended, and waiters for their end. Thread-safe.
class StepUses {
 private:
  struct Present;

 public:
  StepUses() = default;
  StepUses(const StepUses&) = delete;
  StepUses& operator=(const StepUses&) = delete;

  // A use lasts while a copy exists. Never destroy a Use with a lock held.
  using Use = std::shared_ptr<Present>;
  Use Begin(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  // Holds `waiter` until all present uses of the step have ended, and all uses
  // that begin before then.
  void HoldUntilEnd(int64_t step_id, const LastHolderPtr& waiter)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  absl::flat_hash_map<int64_t, std::weak_ptr<Present>> steps_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_STEP_USES_H_
