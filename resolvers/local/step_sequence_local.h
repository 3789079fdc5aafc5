#ifndef TUTTI_RESOLVERS_LOCAL_STEP_SEQUENCE_LOCAL_H_
#define TUTTI_RESOLVERS_LOCAL_STEP_SEQUENCE_LOCAL_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

// Largest step id. Ids have 56 bits, as in TensorFlow: runtimes may tag them
// with the other bits.
inline constexpr int64_t kMaxStepId = (int64_t{1} << 56) - 1;

// Draws a random id to go on from.
inline int64_t DrawStepId(Random& random) {
  return static_cast<int64_t>(random.Next()) & kMaxStepId;
}

// Ids of the next step of each graph, for implementations of
// StepSequenceInterface. Thread-safe.
class NextSteps {
 public:
  // Returns kInvalidStepId if no id is known.
  int64_t Get(int64_t graph_key) const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto found = ids_.find(graph_key);
    return found == ids_.end() ? kInvalidStepId : found->second;
  }
  void Set(int64_t graph_key, int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    ids_[graph_key] = step_id;
  }

  // Records that the step was run. If it was not the graph's next step, the
  // next id becomes unknown.
  void Retire(int64_t graph_key, int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto found = ids_.find(graph_key);
    if (found == ids_.end()) return;
    if (found->second == step_id) {
      found->second = (step_id + 1) & kMaxStepId;
    } else {
      ids_.erase(found);
    }
  }
  void Forget(int64_t graph_key) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    ids_.erase(graph_key);
  }

 private:
  mutable Mutex mu_;
  absl::flat_hash_map<int64_t, int64_t> ids_ ABSL_GUARDED_BY(mu_);
};

// Step sequence of a single process, which agrees with no other. Refreshes
// without waiting.
class StepSequenceLocal : public StepSequenceInterface {
 public:
  explicit StepSequenceLocal(Random* random) : random_(random) {}

  int64_t NextStepId(int64_t graph_key) override {
    return next_.Get(graph_key);
  }
  void RefreshStepIdSequenceAsync(int64_t graph_key,
                                  StatusCallback done) override {
    next_.Set(graph_key, DrawStepId(*random_));
    std::move(done)(absl::OkStatus());
  }
  void RetireStepId(int64_t graph_key, int64_t step_id) override {
    next_.Retire(graph_key, step_id);
  }
  void ForgetGraph(int64_t graph_key) override { next_.Forget(graph_key); }

 private:
  Random* const random_;
  NextSteps next_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_STEP_SEQUENCE_LOCAL_H_
