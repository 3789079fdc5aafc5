#ifndef TUTTI_RESOLVERS_LOCAL_NEXT_STEPS_H_
#define TUTTI_RESOLVERS_LOCAL_NEXT_STEPS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

// The largest step id. Ids have 56 bits, as in TensorFlow, which leaves
// runtimes some to tag them.
inline constexpr int64_t kMaxStepId = (int64_t{1} << 56) - 1;

// An id to go on from: any of them.
int64_t DrawStepId(Random& random);

// The ids of the next step of each graph, as StepSequenceInterface says, for
// implementations of it. Thread-safe.
class NextSteps {
 public:
  // kInvalidStepId if none is known.
  int64_t Get(int64_t graph_key) const ABSL_LOCKS_EXCLUDED(mu_);
  void Set(int64_t graph_key, int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  // That step was run. If it was not the next one, none is known any more.
  void Retire(int64_t graph_key, int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);
  void Forget(int64_t graph_key) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  absl::flat_hash_map<int64_t, int64_t> ids_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_NEXT_STEPS_H_
