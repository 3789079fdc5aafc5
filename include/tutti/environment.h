#ifndef TUTTI_ENVIRONMENT_H_
#define TUTTI_ENVIRONMENT_H_

// Environment: the threads, clock and random numbers that the embedding program
// gives Tutti. Also the parts that asynchronous calls share: StatusCallback,
// Cancellation, BlockingCounter and Await(). Tutti itself starts no thread and
// reads no clock. DefaultEnvironment, a separate library, serves programs that
// have none of these. Callbacks run exactly once, with no lock held, and must
// not block.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tutti {

// Callback that runs exactly once, with no lock of Tutti held. It must not
// block or throw, because its thread may have other members' work to do.
using StatusCallback = absl::AnyInvocable<void(absl::Status) &&>;

using Work = absl::AnyInvocable<void() &&>;

// Runs work that the caller's thread should not do. Thread-safe.
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;

  // Runs `work` once, later, on any thread; never inside Schedule. Work never
  // blocks on other work. A queue runs all its work before it is destroyed.
  virtual void Schedule(Work work) = 0;

  // Number of threads that run work. At least 1.
  virtual int num_workers() const = 0;
};

// Current time, and alarms at a given time. Thread-safe.
class Clock {
 public:
  using AlarmId = uint64_t;

  virtual ~Clock() = default;

  virtual absl::Time Now() = 0;

  // Runs `alarm` once, at `when` or soon after, with no lock held; never inside
  // CallAt. All alarms share one timer.
  virtual AlarmId CallAt(absl::Time when, Work alarm) = 0;

  // Returns true if the alarm had not begun and now never runs; its callback is
  // destroyed. Returns false if it ran, runs, or is unknown. Does not wait.
  virtual bool Cancel(AlarmId id) = 0;
};

// Thread-safe.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;
};

// Everything that Tutti takes from the machine besides memory. The parts
// outlive every object that was given the environment.
struct Environment {
  WorkQueue* queue = nullptr;
  Clock* clock = nullptr;
  Random* random = nullptr;
};

// A signal that many can watch: set once, with the reason, and never cleared.
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

  // Signals all watchers. The first reason stays. OK counts as CANCELLED.
  void Cancel(absl::Status reason);

  // Costs one atomic load; check this before anything more expensive.
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // OK until cancelled.
  absl::Status status() const;

  // Runs `watcher` once, on cancellation. If that has happened already, runs it
  // inside this call and returns 0.
  WatchId Watch(Watcher watcher);

  // Keeps the watcher from starting, unless Cancel() has begun. Does not wait
  // for a running watcher. Ignores unknown ids.
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

// Starts the asynchronous operation `start(done)`, where `done` is a
// StatusCallback. Blocks until `done` runs, and returns its status. Call it on
// a thread that may block, never in a callback: the operation may need the
// thread that runs callbacks.
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

// Environment for programs that have none: worker threads (Asio), the system's
// clock with one timer thread, and a random number generator seeded by the
// system. The workers start with the first work, the timer thread with the
// first alarm. A program with a thread pool can use just the other parts.
//
// Thread-safe. The destructor drops the alarms that have not begun to ring,
// then runs the queued work, and joins its threads. It must not run on one of
// these threads.
class DefaultEnvironment {
 public:
  // Numbers below one mean one worker per processor.
  explicit DefaultEnvironment(int num_workers = 0);
  ~DefaultEnvironment();
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

  // Valid for the lifetime of this object.
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
