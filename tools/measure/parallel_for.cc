#include "tools/measure/parallel_for.h"

#include "tutti/environment.h"

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
