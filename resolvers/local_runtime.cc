#include "resolvers/local_runtime.h"

#include <memory>

#include "resolvers/param_resolver_local.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> CreateLocalExecutorMgr(
    const Environment& environment, const DeviceManager* devices) {
  return CollectiveExecutorMgr::Create({
      .environment = environment,
      .devices = devices,
      .param_resolver = ParamResolverLocal::Create({}),
  });
}

}  // namespace tutti
