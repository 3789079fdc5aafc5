#ifndef TUTTI_RESOLVERS_LOCAL_RUNTIME_H_
#define TUTTI_RESOLVERS_LOCAL_RUNTIME_H_

#include <memory>

#include "absl/status/statusor.h"
#include "framework/collective_executor_mgr.h"
#include "framework/device_manager.h"
#include "framework/environment.h"
#include "framework/selection_rules.h"

namespace tutti {

// All that collectives within one process need: an executor manager with the
// local resolvers and transport. `environment`'s parts and `devices` outlive
// every call; `rules` may be null. Errors: as CollectiveExecutorMgr::Create and
// CheckRules.
absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> CreateLocalExecutorMgr(
    const Environment& environment, const DeviceManager* devices,
    std::shared_ptr<const SelectionRules> rules = nullptr);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_RUNTIME_H_
