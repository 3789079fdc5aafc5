#ifndef TUTTI_FRAMEWORK_BASE_RUN_AGAIN_H_
#define TUTTI_FRAMEWORK_BASE_RUN_AGAIN_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace tutti {

// Runs a function on one thread at a time. A call that comes while the function
// runs, on any thread or from inside, returns at once: the running thread then
// runs the function again, and the last run sees all that its callers changed.
class RunAgain {
 public:
  // REQUIRES: all calls pass the same function.
  void Run(absl::FunctionRef<void()> function) {
    if (num_calls_.fetch_add(1) > 0) return;
    for (int64_t num_seen = 1; num_seen > 0;) {
      function();
      num_seen = num_calls_.fetch_sub(num_seen) - num_seen;
    }
  }

 private:
  std::atomic<int64_t> num_calls_{0};  // Calls that no run has followed.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_RUN_AGAIN_H_
