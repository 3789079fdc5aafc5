#include "tests/conformance/test_group.h"

#include <utility>

#include "framework/peer/local_peer_access.h"
#include "resolvers/local/device_resolver_local.h"
#include "resolvers/local/param_resolver_local.h"
#include "resolvers/local/step_sequence_local.h"
#include "tests/conformance/deferring_peer_access.h"
#include "tests/doubles/parts_peer_access.h"

namespace tutti::conformance {

TestGroup::TestGroup(const Grid& grid, WorkDriver* driver, Transfers transfers,
                     int64_t failing_transfer)
    : driver_(driver),
      transfers_(transfers),
      failing_transfer_(failing_transfer),
      devices_(*DeviceManager::CreateCpu(grid.tasks, grid.devices,
                                         driver->environment().random)),
      manager_(*CollectiveExecutorMgr::Create({
          .environment = driver->environment(),
          .devices = devices_.get(),
          .param_resolver = ParamResolverLocal::Create({}),
          .device_resolver =
              std::make_shared<DeviceResolverLocal>(devices_.get()),
          .step_sequence =
              std::make_shared<StepSequenceLocal>(driver->environment().random),
          .make_peer_access = [this](int64_t) { return MakePeerAccess(); },
      })) {}

TestGroup::~TestGroup() {
  manager_->CleanupAll();
  driver_->RunAll();
}

std::unique_ptr<PeerAccessInterface> TestGroup::MakePeerAccess() {
  auto failing = std::make_unique<FailNthTransfer>(
      std::make_unique<LocalPeerAccess>(), failing_transfer_);
  failing_ = failing.get();
  if (transfers_ == Transfers::kAtOnce) return failing;
  return std::make_unique<DeferringPeerAccess>(
      std::make_unique<PartsPeerAccess>(std::move(failing)),
      driver_->environment().queue);
}

}  // namespace tutti::conformance
