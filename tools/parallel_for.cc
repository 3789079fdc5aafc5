#include "tools/parallel_for.h"

#include "framework/blocking_counter.h"

namespace tutti {

void ParallelFor(WorkQueue* queue, int count,
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
