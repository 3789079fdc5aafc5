#ifndef TUTTI_ENVIRONMENT_H_
#define TUTTI_ENVIRONMENT_H_

// Environment: the threads, clock and random numbers that the embedding program
// gives Tutti. Also the table of all times, and the parts that asynchronous
// calls share: StatusCallback, Cancellation, BlockingCounter and Await(). Tutti
// itself starts no thread and reads no clock. DefaultEnvironment, a separate
// library, serves programs that have none of these. Callbacks run exactly once,
// with no lock held, and must not block.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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

// A clock that only goes forward, at its own rate, and alarms at a time of it.
// Deadlines are times of this clock: Now() plus a limit. The system's time may
// be set meanwhile. Thread-safe.
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
// monotonic clock with one timer thread, and a random number generator seeded
// by the system. The clock begins at the system's time, and stands still while
// the machine is suspended, so that healthy tasks are not lost then. The
// workers start with the first work, the timer thread with the first alarm. A
// program with a thread pool can use just the other parts.
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
  class SteadyClock;
  class SystemRandom;

  const std::unique_ptr<SystemRandom> random_;
  const std::unique_ptr<SteadyClock> clock_;
  const std::unique_ptr<Pool> pool_;
  const Environment environment_;
};

// Row of the table of all times.
struct TimeRow {
  absl::string_view name;
  absl::string_view waits;  // What waits, for what.
  absl::Duration time;
  absl::string_view set_by = "";  // Flag of the tool, or field; empty: none.
};

// All times after which Tutti gives up, tries again or looks again.
// `tutti info --times` prints them.
inline constexpr TimeRow kTimes[] = {
    // Start and end of a cluster. Tasks report again every 0.2 s, up to a
    // second later if they had to connect, and even later on few processors: a
    // refused task stays, so that the others are refused, too.
    {"start", "wait for the other tasks at the start", absl::Seconds(60),
     "--start-timeout"},
    {"start note", "first note of missing tasks at the start",
     absl::Seconds(2)},
    {"start notes", "next note of them", absl::Seconds(10)},
    {"report again", "next report to a task that has not joined",
     absl::Milliseconds(200)},
    {"refused", "stay of a refused task", absl::Seconds(3)},
    {"leave", "wait for the other tasks at the end", absl::Seconds(30)},
    {"leave failed", "same, after an error", absl::Seconds(2)},
    {"grace", "end of stopped tasks, before they are killed", absl::Seconds(10),
     "--grace"},

    // Tasks that are silent or slow.
    {"silence", "silence of a task until it is lost", absl::Milliseconds(4800),
     "--detect default"},
    {"hold", "answer to a heartbeat, held by the other task", absl::Seconds(1),
     "--detect default"},
    {"fast silence", "silence of a task until it is lost",
     absl::Milliseconds(900), "--detect fast"},
    {"fast hold", "answer to a heartbeat, held by the other task",
     absl::Milliseconds(200), "--detect fast"},
    {"most hold", "longest hold that a task accepts", absl::Seconds(60)},
    {"call again", "next attempt of a call", absl::Milliseconds(100)},
    {"takeover", "task that does not know yet that it leads",
     absl::Seconds(10)},
    {"end", "message that a step, group or execution has ended",
     absl::Seconds(10)},
    {"step id", "step id from the leader", absl::Seconds(60)},
    {"first poll", "first question to the leader about missing members",
     absl::Milliseconds(100)},
    {"poll", "next question about them", absl::Seconds(1)},
    {"poll answer", "answer to it", absl::Seconds(5)},
    {"poll is old", "age from which an answer is called old", absl::Seconds(2)},
    {"early request", "request of bytes whose group is not known yet",
     absl::Seconds(30)},

    // gRPC.
    {"cancel grace", "bytes of an ended transfer that gRPC still has",
     absl::Milliseconds(50), "GrpcTransportOptions::cancel_grace"},
    {"proof", "proof of a new connection's caller", absl::Seconds(2)},
    {"unknown peer", "first call of a new connection with TLS",
     absl::Seconds(10)},
    {"idle", "close of a connection, or a stream of bytes, without a use",
     absl::Seconds(20)},
    {"accept again", "next attempt to accept, if descriptors run out",
     absl::Milliseconds(100)},
    {"ping", "next ping of a connection", absl::Seconds(5)},
    {"ping answer", "answer to it", absl::Seconds(5)},
    {"least ping", "pings of a peer, which may be as frequent",
     absl::Seconds(1)},
    {"connect", "one attempt to connect", absl::Seconds(5)},
    {"handshake", "handshake of a new connection", absl::Seconds(5)},
    {"connect again", "second attempt to connect", absl::Milliseconds(100)},
    {"connect late", "later attempts, at most", absl::Seconds(1)},
    {"resolve again", "next look-up of a host's name", absl::Seconds(1)},

    // MPI.
    {"spin", "polls of MPI after the last activity", absl::Microseconds(100),
     "MpiRuntime::Options::spin_limit"},
    {"moving spin", "same, while bytes move", absl::Milliseconds(2),
     "MpiRuntime::Options::moving_spin_limit"},
    {"running spin", "same, while MPI runs a collective", absl::Seconds(1),
     "MpiRuntime::Options::running_spin_limit"},
    {"least pause", "first pause between two polls", absl::Microseconds(50)},
    {"pause", "longest pause between two polls", absl::Milliseconds(5)},
    {"MPI pause", "same, while MPI has work", absl::Milliseconds(1)},
    {"ring pause", "same, if every process can ring", absl::Milliseconds(100)},
    {"stood still", "time between two polls that counts as waiting, at most",
     absl::Milliseconds(100)},
    {"lost", "lost processes, at the end and after a failure",
     absl::Seconds(10), "MpiRuntime::Options::lost_limit"},
    {"unreceived", "bytes that others have not received, at the end",
     absl::Seconds(2)},
    {"permission", "permission to end executions that have not begun",
     absl::Seconds(10)},

    // Named tensors.
    {"stall report", "report of a tensor that some ranks have not requested",
     absl::Seconds(60), "CoordinatorSettings::stall_report_after"},
    {"stall", "such a tensor itself", absl::InfiniteDuration(),
     "CoordinatorSettings::stall_deadline"},

    // GPUs. Guesses, not measured.
    {"GPU look", "next look for errors of GPUs", absl::Milliseconds(100)},
    {"NCCL look", "first look by the clock whether NCCL is ready",
     absl::Microseconds(20)},
    {"NCCL looks", "later looks, at most", absl::Milliseconds(1)},
    {"NCCL end look", "first look whether NCCL has ended",
     absl::Milliseconds(1)},
    {"NCCL end looks", "later looks, at most", absl::Milliseconds(100)},
    {"NCCL end", "end of NCCL, before it is aborted", absl::Seconds(5)},
};

// Row with this name. A name that the table lacks does not compile.
consteval const TimeRow& RowOfTime(absl::string_view name) {
  const TimeRow* row = kTimes;
  while (row->name != name) ++row;
  return *row;
}

consteval absl::Duration DefaultTime(absl::string_view name) {
  return RowOfTime(name).time;
}

}  // namespace tutti

#endif  // TUTTI_ENVIRONMENT_H_
