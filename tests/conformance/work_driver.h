#ifndef TUTTI_TESTS_CONFORMANCE_WORK_DRIVER_H_
#define TUTTI_TESTS_CONFORMANCE_WORK_DRIVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/environment.h"

namespace tutti::conformance {

// Runs the work of a test until there is none: then whatever has not ended
// never will.
class WorkDriver {
 public:
  virtual ~WorkDriver() = default;

  virtual const Environment& environment() const = 0;

  // Returns when no work is queued or running.
  virtual void RunAll() = 0;

  virtual std::string ToString() const = 0;
};

// Runs work on one thread; the seed decides the order.
class SeededDriver : public WorkDriver {
 public:
  explicit SeededDriver(uint64_t seed) : seed_(seed), simulated_(seed) {}

  const Environment& environment() const override { return simulated_.get(); }
  void RunAll() override { simulated_.RunAll(); }
  std::string ToString() const override;

  // Runs all work, then moves the time on and runs what that brings about.
  // Otherwise time stands still.
  void Advance(absl::Duration duration) {
    simulated_.RunAll();
    simulated_.Advance(duration);
  }

 private:
  const uint64_t seed_;
  SimulatedEnvironment simulated_;
};

// Several threads, real time.
std::unique_ptr<WorkDriver> OnThreads(int num_threads);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_WORK_DRIVER_H_
