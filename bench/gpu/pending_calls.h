#ifndef TUTTI_BENCH_GPU_PENDING_CALLS_H_
#define TUTTI_BENCH_GPU_PENDING_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tutti/environment.h"

namespace tutti {

// Calls that end by a callback, for the one thread that begins and awaits them.
// Their ends may come on any thread, and after this object is gone.
class PendingCalls {
 public:
  PendingCalls();

  // The end of a call, which `what` names in errors.
  StatusCallback Add(std::string what);

  bool have_ended() const;

  // The first error among those that have ended.
  absl::Status status() const;

  // Those that have not ended: "all_reduce of rank 1, stream of rank 0".
  std::string Missing() const;

  // Waits until all have ended, at most until `when`. Whether they have.
  bool WaitUntil(absl::Time when, Clock& clock);

 private:
  struct State;

  const std::shared_ptr<State> state_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_PENDING_CALLS_H_
