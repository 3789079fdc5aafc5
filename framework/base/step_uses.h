#ifndef TUTTI_FRAMEWORK_BASE_STEP_USES_H_
#define TUTTI_FRAMEWORK_BASE_STEP_USES_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/last_holder.h"
#include "framework/base/mutex.h"

namespace tutti {

// What goes on in steps, and who waits for its end. Thread-safe.
class StepUses {
 private:
  struct Present;

 public:
  StepUses() = default;
  StepUses(const StepUses&) = delete;
  StepUses& operator=(const StepUses&) = delete;

  // Goes on as long as somebody holds it; let go of with no lock held.
  using Use = std::shared_ptr<Present>;
  Use Begin(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  // Holds `waiter` until all uses of the step have ended that have begun, and
  // those that begin before the last of them has.
  void HoldUntilEnd(int64_t step_id, const LastHolderPtr& waiter)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  absl::flat_hash_map<int64_t, std::weak_ptr<Present>> steps_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_STEP_USES_H_
