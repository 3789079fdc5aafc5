#include "resolvers/membership/device_resolver_distributed.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {

DeviceResolverDistributed::DeviceResolverDistributed(
    ClusterSpec cluster, const DeviceManager& devices)
    : cluster_(std::move(cluster)) {
  Task& own = tasks_[cluster_.this_task];
  for (const Device* device : devices.devices()) {
    own.devices.push_back(device->attributes());
    own.incarnation = own.accepted = device->attributes().incarnation;
  }
}

absl::StatusOr<const DeviceResolverDistributed::Task*>
DeviceResolverDistributed::Find(int task) const {
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) {
    return absl::UnavailableError(absl::StrCat(
        cluster_.Label(task), " has not said which devices it has"));
  }
  const Task& known = found->second;
  if (known.incarnation == known.accepted) return &known;
  return absl::FailedPreconditionError(
      absl::StrCat(cluster_.Label(task), " restarted: its incarnation was ",
                   known.accepted, " and is ", known.incarnation));
}

absl::StatusOr<DeviceAttributes> DeviceResolverDistributed::GetDeviceAttributes(
    absl::string_view full_name) const {
  ASSIGN_OR_RETURN(const auto name, DeviceName::Parse(full_name));
  ASSIGN_OR_RETURN(const auto number, cluster_.TaskOf(name));
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const auto task, Find(number));
  for (const DeviceAttributes& device : task->devices) {
    if (device.name == name) return device;
  }
  return absl::NotFoundError(absl::StrCat(cluster_.Label(number), " has ",
                                          task->devices.size(),
                                          " devices, but not ", full_name));
}

absl::StatusOr<std::vector<DeviceAttributes>>
DeviceResolverDistributed::GetTaskDevices(absl::string_view task_name) const {
  const auto name = DeviceName::Parse(absl::StrCat(task_name, "/device:CPU:0"));
  if (!name.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", task_name, "\" is not the name of a task; wanted ",
                     "the form ", cluster_.TaskName(0)));
  }
  ASSIGN_OR_RETURN(const auto number, cluster_.TaskOf(*name));
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const auto task, Find(number));
  if (!task->devices.empty()) return task->devices;
  return absl::NotFoundError(
      absl::StrCat(cluster_.Label(number), " has no device"));
}

std::optional<int64_t> DeviceResolverDistributed::NumDevices(int task) const {
  MutexLock lock(&mu_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return std::nullopt;
  return static_cast<int64_t>(found->second.devices.size());
}

std::pair<uint64_t, std::vector<DeviceAttributes>>
DeviceResolverDistributed::DevicesOf(int task) const {
  MutexLock lock(&mu_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return {};
  return {found->second.incarnation, found->second.devices};
}

int DeviceResolverDistributed::num_tasks() const {
  MutexLock lock(&mu_);
  return static_cast<int>(tasks_.size());
}

void DeviceResolverDistributed::Set(int task, uint64_t incarnation,
                                    std::vector<DeviceAttributes> devices) {
  MutexLock lock(&mu_);
  const auto [entry, is_new] = tasks_.try_emplace(task);
  if (is_new) entry->second.accepted = incarnation;
  entry->second.incarnation = incarnation;
  entry->second.devices = std::move(devices);
}

void DeviceResolverDistributed::Accept(int task, uint64_t incarnation) {
  MutexLock lock(&mu_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end() || found->second.incarnation != incarnation) return;
  found->second.accepted = incarnation;
}

}  // namespace tutti
