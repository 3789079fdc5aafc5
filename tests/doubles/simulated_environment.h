#ifndef TUTTI_TESTS_DOUBLES_SIMULATED_ENVIRONMENT_H_
#define TUTTI_TESTS_DOUBLES_SIMULATED_ENVIRONMENT_H_

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

// An Environment without threads: work runs when the test says so, in an order
// that the seed determines, and time advances only when the test advances it.
// The same seed gives the same run.
//
// Thread-safe, so that code with threads can use it; Run*() and Advance()
// belong to one thread.
class SimulatedEnvironment {
 public:
  // Number of workers that the queue reports.
  static constexpr int kNumWorkers = 4;

  explicit SimulatedEnvironment(uint64_t seed);
  SimulatedEnvironment(const SimulatedEnvironment&) = delete;
  SimulatedEnvironment& operator=(const SimulatedEnvironment&) = delete;

  const Environment& get() const { return environment_; }

  // Runs scheduled work, including work that it schedules, until none is left.
  void RunAll();

  // Runs at most `max_works` pieces of work. Returns false if none was left
  // before.
  bool RunSome(int max_works);

  // Advances the time, runs the due alarms in order of time, and runs all work
  // after each alarm.
  void Advance(absl::Duration duration);

  size_t num_alarms();

 private:
  class Queue : public WorkQueue {
   public:
    explicit Queue(uint64_t seed) : generator_(seed) {}
    void Schedule(Work work) override ABSL_LOCKS_EXCLUDED(mu_);
    int num_workers() const override { return kNumWorkers; }

    // Removes and returns one scheduled piece of work; null if there is none.
    Work Take() ABSL_LOCKS_EXCLUDED(mu_);

   private:
    Mutex mu_;
    std::mt19937_64 generator_ ABSL_GUARDED_BY(mu_);
    std::vector<Work> waiting_ ABSL_GUARDED_BY(mu_);
  };

  class ManualClock : public Clock {
   public:
    absl::Time Now() override ABSL_LOCKS_EXCLUDED(mu_);
    AlarmId CallAt(absl::Time when, Work alarm) override
        ABSL_LOCKS_EXCLUDED(mu_);
    bool Cancel(AlarmId id) override ABSL_LOCKS_EXCLUDED(mu_);

    // Removes and returns the first alarm due at `end` or before, and sets the
    // time to the alarm's time. Without one, returns null and sets the time to
    // `end`.
    Work TakeDue(absl::Time end) ABSL_LOCKS_EXCLUDED(mu_);
    size_t num_alarms() ABSL_LOCKS_EXCLUDED(mu_);

   private:
    Mutex mu_;
    absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'000'000);
    AlarmId last_id_ ABSL_GUARDED_BY(mu_) = 0;
    std::map<std::pair<absl::Time, AlarmId>, Work> alarms_ ABSL_GUARDED_BY(mu_);
    // Times of alarms_.
    std::map<AlarmId, absl::Time> times_ ABSL_GUARDED_BY(mu_);
  };

  class SeededRandom : public Random {
   public:
    explicit SeededRandom(uint64_t seed) : generator_(seed) {}
    uint64_t Next() override ABSL_LOCKS_EXCLUDED(mu_);

   private:
    Mutex mu_;
    std::mt19937_64 generator_ ABSL_GUARDED_BY(mu_);
  };

  Queue queue_;
  ManualClock clock_;
  SeededRandom random_;
  const Environment environment_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_SIMULATED_ENVIRONMENT_H_
