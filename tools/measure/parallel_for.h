#ifndef TUTTI_TOOLS_MEASURE_PARALLEL_FOR_H_
#define TUTTI_TOOLS_MEASURE_PARALLEL_FOR_H_

#include "absl/functional/function_ref.h"
#include "tutti/environment.h"

namespace tutti {

// Runs work(0) ... work(count - 1) on the queue and waits for all of them. Must
// not be called on the queue's threads.
inline void ParallelFor(WorkQueue* queue, int count,
                        absl::FunctionRef<void(int)> work) {
  BlockingCounter pending(count);
  for (int i = 0; i < count; ++i) {
    queue->Schedule([&, i] {
      work(i);
      pending.DecrementCount();
    });
  }
  pending.Wait();
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_PARALLEL_FOR_H_
