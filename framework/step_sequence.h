#ifndef TUTTI_FRAMEWORK_STEP_SEQUENCE_H_
#define TUTTI_FRAMEWORK_STEP_SEQUENCE_H_

#include <cstdint>

#include "framework/status_callback.h"

namespace tutti {

// What NextStepId() answers while it does not know.
inline constexpr int64_t kInvalidStepId = -1;

// Step ids that all tasks agree on without a message per step. A graph is what
// a runtime runs again and again; its steps are numbered in sequence from an id
// that the leader draws. Thread-safe.
//
// A runtime takes NextStepId(), or if that is kInvalidStepId refreshes first,
// runs the step under it, and retires it.
class StepSequenceInterface {
 public:
  virtual ~StepSequenceInterface() = default;

  // The id of the graph's next step: the same until it is retired. Not
  // negative, or kInvalidStepId if the sequence must be refreshed.
  virtual int64_t NextStepId(int64_t graph_key) = 0;

  // Draws, or learns from the leader, an id to go on from.
  virtual void RefreshStepIdSequenceAsync(int64_t graph_key,
                                          StatusCallback done) = 0;

  // The step was run: the next one follows. An id that is not the present one
  // means that tasks differ, so that the sequence must be refreshed.
  virtual void RetireStepId(int64_t graph_key, int64_t step_id) = 0;

  // The graph will not run again.
  virtual void ForgetGraph(int64_t graph_key) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_STEP_SEQUENCE_H_
