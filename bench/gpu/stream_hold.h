#ifndef TUTTI_BENCH_GPU_STREAM_HOLD_H_
#define TUTTI_BENCH_GPU_STREAM_HOLD_H_

#include <atomic>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "tutti/environment.h"

namespace tutti {

// Keeps a stream from going on (SuiteMachine::Hold): until Release(), the
// destructor, or a limit. So a host that the stream blocks does not hang.
// Thread-safe; the clock outlives it.
class StreamHold {
 public:
  // `on_end`, if set, is called once when the stream may go on.
  StreamHold(Clock& clock, absl::Duration limit,
             std::function<void()> on_end = nullptr);
  ~StreamHold() { Release(); }
  StreamHold(const StreamHold&) = delete;
  StreamHold& operator=(const StreamHold&) = delete;

  // The stream may go on. Whether it could not before.
  bool Release();

  // True once the stream may go on.
  std::shared_ptr<const std::atomic<bool>> gate() const;

  // Blocks until then. It may be called when this object is gone.
  std::function<void()> Waiter() const;

 private:
  struct State;

  Clock& clock_;
  const std::shared_ptr<State> state_;
  const Clock::AlarmId alarm_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_STREAM_HOLD_H_
