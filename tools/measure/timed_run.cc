#include "tools/measure/timed_run.h"

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "tutti/environment.h"

namespace tutti {

absl::StatusOr<absl::Duration> TimedRun(ExecuteFn execute, Clock* clock,
                                        std::vector<CollectiveArgs> calls) {
  std::vector<absl::Status> statuses(calls.size());
  std::atomic<size_t> left = calls.size();
  absl::Time end = absl::InfinitePast();
  BlockingCounter ended(1);
  const absl::Time start = clock->Now();
  for (size_t i = 0; i < calls.size(); ++i) {
    execute(std::move(calls[i]), [&, i](absl::Status status) {
      statuses[i] = std::move(status);
      if (left.fetch_sub(1) > 1) return;
      end = clock->Now();
      ended.DecrementCount();
    });
  }
  ended.Wait();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return end - start;
}

}  // namespace tutti
