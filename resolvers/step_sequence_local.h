#ifndef TUTTI_RESOLVERS_STEP_SEQUENCE_LOCAL_H_
#define TUTTI_RESOLVERS_STEP_SEQUENCE_LOCAL_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/environment.h"
#include "framework/mutex.h"
#include "framework/step_sequence.h"

namespace tutti {

// The sequence of a process that agrees with nobody else. It refreshes without
// waiting.
class StepSequenceLocal : public StepSequenceInterface {
 public:
  explicit StepSequenceLocal(Random* random) : random_(random) {}

  int64_t NextStepId(int64_t graph_key) override ABSL_LOCKS_EXCLUDED(mu_);
  void RefreshStepIdSequenceAsync(int64_t graph_key,
                                  StatusCallback done) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void RetireStepId(int64_t graph_key, int64_t step_id) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void ForgetGraph(int64_t graph_key) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Random* const random_;
  Mutex mu_;
  absl::flat_hash_map<int64_t, int64_t> next_ids_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_STEP_SEQUENCE_LOCAL_H_
