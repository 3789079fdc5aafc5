#ifndef TUTTI_FRAMEWORK_AWAIT_H_
#define TUTTI_FRAMEWORK_AWAIT_H_

#include <utility>

#include "absl/status/status.h"
#include "framework/blocking_counter.h"
#include "framework/status_callback.h"

namespace tutti {

// Begins an asynchronous operation, `start(done)`, and waits for it: the status
// that `done`, a StatusCallback, was given. Blocks, so it is for threads of the
// caller's own, not for callbacks: the operation may need the thread that runs
// them.
template <typename Start>
absl::Status Await(Start start) {
  absl::Status result;
  BlockingCounter ended(1);
  start(StatusCallback([&](absl::Status status) {
    result = std::move(status);
    ended.DecrementCount();
  }));
  ended.Wait();
  return result;
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_AWAIT_H_
