#include "tutti/local_runtime.h"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "resolvers/local/device_resolver_local.h"
#include "resolvers/local/param_resolver_local.h"
#include "resolvers/local/step_sequence_local.h"
#include "tutti/environment.h"
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

// --- LocalGroup --------------------------------------------------------------

absl::StatusOr<std::unique_ptr<LocalGroup>> LocalGroup::Create(
    const Environment& environment, int num_tasks, int devices_per_task,
    std::shared_ptr<const SelectionRules> rules) {
  ASSIGN_OR_RETURN(auto devices,
                   DeviceManager::CreateCpu(num_tasks, devices_per_task,
                                            environment.random));
  ASSIGN_OR_RETURN(
      auto manager,
      CreateLocalExecutorMgr(environment, devices.get(), std::move(rules)));
  const std::vector<Device*> members = devices->devices();
  return std::unique_ptr<LocalGroup>(
      new LocalGroup(std::move(devices), members, std::move(manager)));
}

absl::StatusOr<std::unique_ptr<LocalGroup>> LocalGroup::Create(
    const Environment& environment, const DeviceManager* devices, size_t size,
    std::shared_ptr<const SelectionRules> rules) {
  const std::vector<Device*>& all = devices->devices();
  if (size < 1 || size > all.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted a group of ", size, " of ", all.size(), " devices"));
  }
  ASSIGN_OR_RETURN(auto manager, CreateLocalExecutorMgr(environment, devices,
                                                        std::move(rules)));
  return std::unique_ptr<LocalGroup>(new LocalGroup(
      nullptr, {all.begin(), all.begin() + static_cast<ptrdiff_t>(size)},
      std::move(manager)));
}

LocalGroup::LocalGroup(std::unique_ptr<DeviceManager> owned,
                       std::vector<Device*> devices,
                       std::unique_ptr<CollectiveExecutorMgr> manager)
    : owned_(std::move(owned)),
      devices_(std::move(devices)),
      manager_(std::move(manager)) {}

std::vector<absl::Status> LocalGroup::RunEach(
    int64_t step_id, absl::Span<CollectiveArgs> calls) {
  if (calls.size() > devices().size()) {
    return std::vector<absl::Status>(
        calls.size(), absl::InvalidArgumentError(
                          absl::StrCat(calls.size(), " calls for a group of ",
                                       devices().size(), " devices")));
  }
  const auto executor = manager_->FindOrCreate(step_id);
  std::vector<absl::Status> statuses(calls.size());
  BlockingCounter pending(static_cast<int>(calls.size()));
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].device == nullptr) calls[i].device = devices()[i];
    executor->ExecuteAsync(calls[i], [&, i](absl::Status status) {
      statuses[i] = std::move(status);
      pending.DecrementCount();
    });
  }
  pending.Wait();
  return statuses;
}

absl::Status LocalGroup::Run(int64_t step_id,
                             absl::Span<CollectiveArgs> calls) {
  for (absl::Status& status : RunEach(step_id, calls)) {
    if (!status.ok()) return std::move(status);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> LocalGroup::Run(
    int64_t step_id, CollectiveRequest request,
    absl::Span<const Tensor> inputs) {
  const size_t size = devices().size();
  if (inputs.size() != size) {
    return absl::InvalidArgumentError(absl::StrCat(
        inputs.size(), " inputs for a group of ", size, " devices"));
  }
  request.group_size = static_cast<int>(size);
  request.device_type = devices().front()->attributes().name.type;
  std::vector<Tensor> outputs(size);
  std::vector<CollectiveArgs> calls(size);
  for (size_t rank = 0; rank < size; ++rank) {
    request.rank = static_cast<int>(rank);
    if (inputs[rank].is_set()) {
      request.dtype = inputs[rank].dtype();
      request.shape = inputs[rank].shape();
    }
    if (auto* broadcast = std::get_if<Broadcast>(&request.op)) {
      broadcast->is_source = inputs[rank].is_set();
    }
    calls[rank].request = std::make_shared<const CollectiveRequest>(request);
    calls[rank].input = inputs[rank];
    calls[rank].output = &outputs[rank];
  }
  RETURN_IF_ERROR(Run(step_id, absl::MakeSpan(calls)));
  return outputs;
}

}  // namespace tutti
