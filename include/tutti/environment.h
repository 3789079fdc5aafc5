#ifndef TUTTI_ENVIRONMENT_H_
#define TUTTI_ENVIRONMENT_H_

// Environment: the threads, clock and random numbers that the embedder lends
// to Tutti, and what asynchronous calls share: StatusCallback, Cancellation,
// BlockingCounter and Await(). Tutti starts no thread and reads no clock by
// itself. DefaultEnvironment serves programs that bring nothing; it is a
// library of its own. Callbacks run exactly once, with no lock held, and
// must not block.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tutti {

// Runs exactly once, with no lock of ours held. It must not block or throw: the
// thread that runs it may have other members' work to do.
using StatusCallback = absl::AnyInvocable<void(absl::Status) &&>;

using Work = absl::AnyInvocable<void() &&>;

// Where work runs that the caller's thread should not do. Thread-safe.
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;

  // Runs `work` once, later, on any thread; never inside Schedule. Work never
  // blocks on other work. A queue that is going away runs what it holds.
  virtual void Schedule(Work work) = 0;

  // How many threads run work. At least 1.
  virtual int num_workers() const = 0;
};

// Time, and what to do at a time. Thread-safe.
class Clock {
 public:
  using AlarmId = uint64_t;

  virtual ~Clock() = default;

  virtual absl::Time Now() = 0;

  // Runs `alarm` once at `when` or soon after, with no lock held; never inside
  // CallAt. All alarms share one timer.
  virtual AlarmId CallAt(absl::Time when, Work alarm) = 0;

  // True if the alarm had not begun to run and now never will; its callback is
  // destroyed. False if it ran, runs, or is unknown. Does not wait.
  virtual bool Cancel(AlarmId id) = 0;
};

// Thread-safe.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;
};

// All that Tutti takes from the machine besides memory. The parts outlive
// everything that was given the environment.
struct Environment {
  WorkQueue* queue = nullptr;
  Clock* clock = nullptr;
  Random* random = nullptr;
};

// Word that many may wait for: set once, with the reason, and never unset.
//
// Thread-safe. Watchers run on the thread that cancels, with no lock held.
class Cancellation {
 public:
  using WatchId = uint64_t;  // Never 0.
  using Watcher = absl::AnyInvocable<void(const absl::Status&) &&>;

  Cancellation();
  ~Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // The first reason stays. OK is taken as CANCELLED.
  void Cancel(absl::Status reason);

  // One load; use it before anything dearer.
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // OK until cancelled.
  absl::Status status() const;

  // Runs `watcher` once when cancelled; inside this call, returning 0, if that
  // has happened already.
  WatchId Watch(Watcher watcher);

  // After this the watcher does not begin to run, unless Cancel() has begun:
  // that is not waited for. Unknown ids are ignored.
  void Unwatch(WatchId id);

 private:
  class Watchers;

  std::atomic<bool> cancelled_{false};
  const std::unique_ptr<Watchers> watchers_;
};

// Lets one thread, which may block, wait for a number of events. Thread-safe;
// may be destroyed as soon as Wait() returns.
class BlockingCounter {
 public:
  explicit BlockingCounter(int count);
  ~BlockingCounter();
  BlockingCounter(const BlockingCounter&) = delete;
  BlockingCounter& operator=(const BlockingCounter&) = delete;

  void DecrementCount();
  void Wait();

 private:
  class Count;

  const std::unique_ptr<Count> count_;
};

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

// An Environment for programs that bring none of their own: a pool of worker
// threads (Asio) that start with the first work, the system's clock with one
// timer thread that starts with the first alarm, and a random number generator
// seeded by the system. A program with a pool of its own takes the rest.
//
// Thread-safe. The destructor first drops the alarms that have not begun to
// ring, then runs the work that is queued, and joins its threads; it must not
// run on one of them.
class DefaultEnvironment {
 public:
  // Below one: one worker per processor.
  explicit DefaultEnvironment(int num_workers = 0);
  ~DefaultEnvironment();
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

  // Valid as long as this object.
  const Environment& get() const { return environment_; }

 private:
  class Pool;
  class SystemClock;
  class SystemRandom;

  const std::unique_ptr<SystemRandom> random_;
  const std::unique_ptr<SystemClock> clock_;
  const std::unique_ptr<Pool> pool_;
  const Environment environment_;
};

}  // namespace tutti

#endif  // TUTTI_ENVIRONMENT_H_
