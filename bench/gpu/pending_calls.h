#ifndef TUTTI_BENCH_GPU_PENDING_CALLS_H_
#define TUTTI_BENCH_GPU_PENDING_CALLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tutti/environment.h"

namespace tutti {

// Calls that end by a callback. One thread begins them and waits for them.
// Their ends may come on any thread, and after this object is gone.
class PendingCalls {
 public:
  PendingCalls();

  // Callback that ends one more call. Errors name the call by `name`.
  StatusCallback Add(std::string name);

  bool have_ended() const;

  // First error among the calls that have ended.
  absl::Status status() const;

  // Names of the calls that have not ended: "rank 1, stream of rank 0".
  std::string Missing() const;

  // Blocks until all calls have ended, or until `when`. Returns have_ended().
  bool WaitUntil(absl::Time when, Clock& clock);

 private:
  struct State;

  const std::shared_ptr<State> state_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_PENDING_CALLS_H_
