#ifndef TUTTI_TESTS_CONFORMANCE_TEST_GROUP_H_
#define TUTTI_TESTS_CONFORMANCE_TEST_GROUP_H_

#include <cstdint>
#include <memory>

#include "tests/conformance/case.h"
#include "tests/conformance/work_driver.h"
#include "tests/doubles/failing_peer_access.h"
#include "tutti/device.h"
#include "tutti/executor.h"

namespace tutti::conformance {

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
