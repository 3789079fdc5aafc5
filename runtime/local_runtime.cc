#include "tutti/local_runtime.h"

#include <memory>
#include <utility>

#include "framework/base/status_macros.h"
#include "resolvers/local/device_resolver_local.h"
#include "resolvers/local/param_resolver_local.h"
#include "resolvers/local/step_sequence_local.h"
#include "tutti/implementation.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> CreateLocalExecutorMgr(
    const Environment& environment, const DeviceManager* devices,
    std::shared_ptr<const SelectionRules> rules) {
  if (rules != nullptr) {
    RETURN_IF_ERROR(CheckRules(CollectiveRegistry::Global(), *rules));
  }
  const auto past_caches_from_bytes = PastCachesFromBytes(rules.get());
  return CollectiveExecutorMgr::Create({
      .environment = environment,
      .devices = devices,
      .param_resolver =
          ParamResolverLocal::Create({.policy = {.rules = std::move(rules)}}),
      .device_resolver = std::make_shared<DeviceResolverLocal>(devices),
      .step_sequence = std::make_shared<StepSequenceLocal>(environment.random),
      .past_caches_from_bytes = past_caches_from_bytes,
  });
}

}  // namespace tutti
