#include "tutti/device.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"

namespace tutti {
namespace {

bool ConsumeNumber(absl::string_view text, int* number) {
  return absl::SimpleAtoi(text, number) && *number >= 0;
}

bool ParseInto(absl::string_view full_name, DeviceName* name) {
  if (!absl::ConsumePrefix(&full_name, "/job:")) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(full_name, '/');
  if (parts.size() != 4 || parts[0].empty()) return false;
  absl::string_view replica = parts[1];
  absl::string_view task = parts[2];
  absl::string_view device = parts[3];
  if (!absl::ConsumePrefix(&replica, "replica:") ||
      !absl::ConsumePrefix(&task, "task:") ||
      !absl::ConsumePrefix(&device, "device:")) {
    return false;
  }
  const std::vector<absl::string_view> type_and_index =
      absl::StrSplit(device, ':');
  if (type_and_index.size() != 2 || type_and_index[0].empty()) return false;
  name->job = std::string(parts[0]);
  name->type = std::string(type_and_index[0]);
  return ConsumeNumber(replica, &name->replica) &&
         ConsumeNumber(task, &name->task) &&
         ConsumeNumber(type_and_index[1], &name->index);
}

}  // namespace

// Outfeed channel of a device, once it has one. Thread-safe.
class Device::OutfeedSlot {
 public:
  std::shared_ptr<OutfeedChannel> channel() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return channel_;
  }

  // Sets the channel if there is none. Returns the channel that stays.
  std::shared_ptr<OutfeedChannel> Give(std::shared_ptr<OutfeedChannel> channel)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (channel_ == nullptr) channel_ = std::move(channel);
    return channel_;
  }

 private:
  Mutex mu_;
  std::shared_ptr<OutfeedChannel> channel_ ABSL_GUARDED_BY(mu_);
};

Device::Device(DeviceAttributes attributes)
    : attributes_(std::move(attributes)),
      full_name_(attributes_.name.ToString()),
      outfeed_(std::make_unique<OutfeedSlot>()) {}

Device::~Device() = default;

void Device::CopyToHost(std::vector<Tensor> arrays, ArraysCallback done) {
  if (has_host_memory()) return std::move(done)(std::move(arrays));
  std::move(done)(absl::UnimplementedError(
      absl::StrCat("device ", full_name_, " does not copy its tensors")));
}

std::shared_ptr<OutfeedChannel> Device::outfeed_channel() const {
  return outfeed_->channel();
}

std::shared_ptr<OutfeedChannel> Device::GiveOutfeedChannel(
    std::shared_ptr<OutfeedChannel> channel) {
  return outfeed_->Give(std::move(channel));
}

absl::StatusOr<DeviceName> DeviceName::Parse(absl::string_view full_name) {
  DeviceName name;
  if (ParseInto(full_name, &name)) return name;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", full_name, "\" is not a device name; wanted the form ",
                   "/job:worker/replica:0/task:3/device:CPU:1"));
}

std::string DeviceName::TaskName() const {
  return absl::StrCat("/job:", job, "/replica:", replica, "/task:", task);
}

std::string DeviceName::ToString() const {
  return absl::StrCat(TaskName(), "/device:", type, ":", index);
}

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
  return CreateCpu(
      std::vector<int>(static_cast<size_t>(num_tasks), devices_per_task),
      random);
}

absl::StatusOr<std::unique_ptr<DeviceManager>> DeviceManager::CreateCpu(
    absl::Span<const int> task_sizes, Random* random) {
  if (random == nullptr) {
    return absl::InvalidArgumentError(
        "CPU devices need a source of random numbers for their incarnations");
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (int task = 0; task < static_cast<int>(task_sizes.size()); ++task) {
    const uint64_t incarnation = random->Next();
    const int size = task_sizes[static_cast<size_t>(task)];
    for (int index = 0; index < size; ++index) {
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
