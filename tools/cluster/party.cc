#include "tools/cluster/party.h"

#include <utility>

#include "framework/base/status_macros.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

class PartyOfOneProcess : public Party {
 public:
  PartyOfOneProcess(std::shared_ptr<const SelectionRules> rules,
                    DeviceMaker make_devices,
                    std::unique_ptr<DeviceManager> devices,
                    std::unique_ptr<CollectiveExecutorMgr> manager)
      : rules_(std::move(rules)),
        make_devices_(std::move(make_devices)),
        devices_(std::move(devices)),
        manager_(std::move(manager)) {}

  int num_ranks() const override { return num_local(); }
  int first_rank() const override { return 0; }
  const std::vector<Device*>& devices() const override {
    return devices_->devices();
  }
  CollectiveExecutorMgr& manager() override { return *manager_; }
  SelectionPolicy policy() const override { return {.rules = rules_}; }
  bool reports() const override { return true; }
  absl::Status Align() override { return absl::OkStatus(); }
  absl::Status Agree(const absl::Status& mine) override { return mine; }
  absl::Status Combine(ReductionKind /*kind*/,
                       absl::Span<int64_t> /*numbers*/) override {
    return absl::OkStatus();
  }
  absl::Status Leave(const absl::Status& outcome) override { return outcome; }

 private:
  const std::shared_ptr<const SelectionRules> rules_;
  const DeviceMaker make_devices_;  // Outlives the devices.
  const std::unique_ptr<DeviceManager> devices_;
  const std::unique_ptr<CollectiveExecutorMgr> manager_;
};

absl::StatusOr<std::unique_ptr<DeviceManager>> MakeDevices(
    const DeviceMaker& make_devices, int num_tasks, int per_task) {
  std::vector<std::unique_ptr<Device>> all;
  for (int task = 0; task < num_tasks; ++task) {
    ASSIGN_OR_RETURN(auto devices, make_devices({.task = task,
                                                 .first_rank = task * per_task,
                                                 .num_devices = per_task}));
    for (auto& device : devices) all.push_back(std::move(device));
  }
  return DeviceManager::Create(std::move(all));
}

}  // namespace

PartyFactory LocalParty(const Environment& environment,
                        std::shared_ptr<const SelectionRules> rules,
                        DeviceMaker make_devices) {
  return [environment, rules = std::move(rules),
          make_devices = std::move(make_devices)](
             int num_ranks,
             int num_tasks) -> absl::StatusOr<std::unique_ptr<Party>> {
    const int per_task = num_ranks / num_tasks;
    ASSIGN_OR_RETURN(
        auto devices,
        make_devices == nullptr
            ? DeviceManager::CreateCpu(num_tasks, per_task, environment.random)
            : MakeDevices(make_devices, num_tasks, per_task));
    ASSIGN_OR_RETURN(auto manager,
                     CreateLocalExecutorMgr(environment, devices.get(), rules));
    return std::make_unique<PartyOfOneProcess>(
        rules, make_devices, std::move(devices), std::move(manager));
  };
}

absl::Status RunCalls(Party* party, int64_t step_id,
                      absl::Span<CollectiveArgs> calls) {
  const auto executor = party->manager().FindOrCreate(step_id);
  std::vector<absl::Status> statuses(calls.size());
  BlockingCounter pending(static_cast<int>(calls.size()));
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].device = party->devices()[i];
    executor->ExecuteAsync(calls[i], [&, i](absl::Status status) {
      statuses[i] = std::move(status);
      pending.DecrementCount();
    });
  }
  pending.Wait();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tutti
