#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tutti/device.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<DeviceManager>> DeviceManager::Create(
    std::vector<std::unique_ptr<Device>> devices) {
  if (devices.empty()) {
    return absl::InvalidArgumentError("a device manager needs a device");
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i] == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", i, " of ", devices.size(), " is null"));
    }
  }
  auto manager =
      std::unique_ptr<DeviceManager>(new DeviceManager(std::move(devices)));
  for (Device* device : manager->in_order_) {
    if (!manager->by_name_.emplace(device->full_name(), device).second) {
      return absl::AlreadyExistsError(
          absl::StrCat("two devices are named ", device->full_name()));
    }
    manager->known_.insert(device);
  }
  return manager;
}

absl::StatusOr<std::unique_ptr<DeviceManager>> DeviceManager::CreateCpu(
    int num_tasks, int devices_per_task, Random* random) {
  if (num_tasks < 1 || devices_per_task < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted at least one device, got ", num_tasks,
                     " tasks with ", devices_per_task, " devices each"));
  }
  if (random == nullptr) {
    return absl::InvalidArgumentError(
        "CPU devices need a source of random numbers for their incarnations");
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (int task = 0; task < num_tasks; ++task) {
    const uint64_t incarnation = random->Next();
    for (int index = 0; index < devices_per_task; ++index) {
      devices.push_back(std::make_unique<CpuDevice>(
          DeviceAttributes{.name = {"localhost", 0, task, "CPU", index},
                           .incarnation = incarnation}));
    }
  }
  return Create(std::move(devices));
}

DeviceManager::DeviceManager(std::vector<std::unique_ptr<Device>> devices)
    : owned_(std::move(devices)) {
  for (const auto& device : owned_) in_order_.push_back(device.get());
}

absl::StatusOr<Device*> DeviceManager::Find(absl::string_view full_name) const {
  const auto found = by_name_.find(full_name);
  if (found != by_name_.end()) return found->second;
  constexpr size_t kMostToList = 8;
  const auto some = absl::MakeConstSpan(in_order_).subspan(
      0, std::min(in_order_.size(), kMostToList));
  return absl::NotFoundError(
      absl::StrCat("no device is named \"", full_name, "\"; this process has ",
                   in_order_.size(), ": ",
                   absl::StrJoin(some, ", ",
                                 [](std::string* out, const Device* device) {
                                   absl::StrAppend(out, device->full_name());
                                 }),
                   in_order_.size() > kMostToList ? ", ..." : ""));
}

}  // namespace tutti
