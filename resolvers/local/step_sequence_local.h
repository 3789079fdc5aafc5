#ifndef TUTTI_RESOLVERS_LOCAL_STEP_SEQUENCE_LOCAL_H_
#define TUTTI_RESOLVERS_LOCAL_STEP_SEQUENCE_LOCAL_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "resolvers/local/next_steps.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {

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
