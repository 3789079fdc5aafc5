#ifndef TUTTI_FRAMEWORK_ENVIRONMENT_H_
#define TUTTI_FRAMEWORK_ENVIRONMENT_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace tutti {

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

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_ENVIRONMENT_H_
