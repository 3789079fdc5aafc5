#ifndef TUTTI_TESTS_CONFORMANCE_TEST_GROUP_H_
#define TUTTI_TESTS_CONFORMANCE_TEST_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "tests/conformance/case.h"
#include "tests/doubles/failing_peer_access.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

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

// When transfers begin.
enum class Transfers : uint8_t {
  kAtOnce,  // On the thread that asks for them.

  // Deferred to separate work (DeferringPeerAccess), the bytes in parts
  // (PartsPeerAccess).
  kDeferred
};

// CPU devices of some tasks, all in this process, and all they need to run
// collectives.
class TestGroup {
 public:
  // The n-th transfer of each step fails; none if n is 0. `driver` outlives
  // the group.
  TestGroup(const Grid& grid, WorkDriver* driver, Transfers transfers,
            int64_t failing_transfer = 0);
  TestGroup(const TestGroup&) = delete;
  TestGroup& operator=(const TestGroup&) = delete;

  // Ends what has not ended.
  ~TestGroup();

  Device* device(int index) const { return devices_->devices()[index]; }
  WorkDriver& driver() const { return *driver_; }

  std::shared_ptr<CollectiveExecutor> step(int64_t step_id) {
    return manager_->FindOrCreate(step_id);
  }
  void EndStep(int64_t step_id) { manager_->Cleanup(step_id); }

  // Transfers that began in the step that was made last.
  int64_t num_transfers() const { return failing_->num_transfers(); }

 private:
  std::unique_ptr<PeerAccessInterface> MakePeerAccess();

  WorkDriver* const driver_;
  const Transfers transfers_;
  const int64_t failing_transfer_;
  const FailNthTransfer* failing_ = nullptr;
  std::unique_ptr<DeviceManager> devices_;
  std::unique_ptr<CollectiveExecutorMgr> manager_;
};

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_TEST_GROUP_H_
