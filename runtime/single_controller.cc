#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("AllReduce: ", args...));
}

std::string Text(const Tensor& tensor) {
  if (!tensor.is_set()) return "not set";
  return absl::StrCat(Name(tensor.dtype()), " ", tensor.shape().ToString());
}

absl::Status CheckTensors(absl::Span<const Tensor> tensors) {
  if (tensors.empty()) return Invalid("got no tensors");
  if (tensors.size() > kMaxGroupSize) {
    return Invalid("got ", tensors.size(), " tensors; wanted at most ",
                   kMaxGroupSize);
  }
  const Tensor& first = tensors.front();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (tensor.is_set() && tensor.dtype() == first.dtype() &&
        tensor.shape() == first.shape()) {
      continue;
    }
    return Invalid(
        "tensor ", i, " is ", Text(tensor),
        i == 0 ? std::string() : absl::StrCat(", tensor 0 ", Text(first)));
  }
  return absl::OkStatus();
}

std::string ListText(const std::vector<int>& numbers) {
  return absl::StrCat(
      "[",
      ShortList(numbers.size(),
                [&](size_t i) { return absl::StrCat(numbers[i]); }),
      "]");
}

absl::Status CheckDevices(absl::string_view option,
                          const std::vector<int>& devices, int num_tensors) {
  std::vector<bool> seen(num_tensors);
  for (const int device : devices) {
    if (device < 0 || device >= num_tensors) {
      return Invalid(option, " ", ListText(devices), " names tensor ", device,
                     " of ", num_tensors);
    }
    if (seen[device]) {
      return Invalid(option, " ", ListText(devices), " names tensor ", device,
                     " twice");
    }
    seen[device] = true;
  }
  return absl::OkStatus();
}

// `devices_per_task` is that of the smallest task.
absl::Status CheckOptions(const AllReduceOptions& options, int num_tensors,
                          int devices_per_task) {
  if (options.num_subchunks < 0 || options.num_subchunks > devices_per_task) {
    return Invalid("num_subchunks is ", options.num_subchunks,
                   "; wanted 0 to the ", devices_per_task, " devices per task");
  }
  if (!options.ring_order.empty() && !options.gather_devices.empty()) {
    return Invalid("got both ring_order ", ListText(options.ring_order),
                   " and gather_devices ", ListText(options.gather_devices));
  }
  if (options.algorithm.empty() && options.num_subchunks > 0 &&
      !options.gather_devices.empty()) {
    return Invalid("got both num_subchunks ", options.num_subchunks,
                   " and gather_devices ", ListText(options.gather_devices));
  }
  if (!options.ring_order.empty() &&
      options.ring_order.size() != static_cast<size_t>(num_tensors)) {
    return Invalid("ring_order ", ListText(options.ring_order),
                   " is not an order of ", num_tensors, " tensors");
  }
  absl::Status status =
      CheckDevices("ring_order", options.ring_order, num_tensors);
  status.Update(
      CheckDevices("gather_devices", options.gather_devices, num_tensors));
  return status;
}

std::string AlgorithmOf(const AllReduceOptions& options) {
  if (!options.algorithm.empty()) return options.algorithm;
  if (!options.gather_devices.empty()) return "ShuffleReduce";
  const bool is_ring = !options.ring_order.empty() || options.num_subchunks > 0;
  return is_ring ? "RingReduce" : "";
}

// Accepts unknown names: the resolver rejects them and lists the known ones.
absl::Status CheckAlgorithm(const std::string& name,
                            const AllReduceOptions& options, int num_tensors) {
  const auto factory = CollectiveRegistry::Global().Find(name);
  if (!factory.ok()) return absl::OkStatus();
  const ImplementationTraits& traits = (*factory)->traits();
  const RankListUse use = traits.rank_list;
  if (use == RankListUse::kAllRanks && num_tensors < 2) {
    return Invalid(name, " goes round a ring of at least 2 tensors; got ",
                   num_tensors);
  }
  if (!options.ring_order.empty() && use != RankListUse::kAllRanks) {
    return Invalid(name, " has no ring for ring_order ",
                   ListText(options.ring_order));
  }
  if (!options.gather_devices.empty() && use != RankListUse::kOwners) {
    return Invalid(name, " has no use for gather_devices ",
                   ListText(options.gather_devices));
  }
  if (options.num_subchunks > 0 && !traits.supports_subdivisions) {
    return Invalid(name, " has no subchunks for num_subchunks ",
                   options.num_subchunks);
  }
  return absl::OkStatus();
}

// Bounds the entries kept: each settled call keeps an entry for each tensor.
InstanceKey MaxInstances(int num_tensors) {
  constexpr int kMaxInstances = 1024;
  constexpr int kMaxEntries = 64 * kMaxInstances;
  return std::clamp(kMaxEntries / num_tensors, 1, kMaxInstances);
}

CollImplDetails DetailsOf(const AllReduceOptions& options,
                          int devices_per_task) {
  CollImplDetails details;
  details.implementation = AlgorithmOf(options);
  const int stride =
      std::max(1, devices_per_task / std::max(1, options.num_subchunks));
  for (int ring = 0; ring < options.num_subchunks; ++ring) {
    details.subdiv_offsets.push_back(ring * stride);
  }
  details.rank_list =
      options.ring_order.empty() ? options.gather_devices : options.ring_order;
  return details;
}

// Number of devices of each task. Errors: INVALID_ARGUMENT unless each task
// gets a tensor.
absl::StatusOr<std::vector<int>> TaskSizes(int num_tensors, int num_tasks) {
  if (num_tasks < 1 || num_tasks > num_tensors) {
    return Invalid(num_tensors, " tensors cannot lie on ", num_tasks,
                   " tasks, at least one on each");
  }
  std::vector<int> sizes(num_tasks, num_tensors / num_tasks);
  for (int task = 0; task < num_tensors % num_tasks; ++task) ++sizes[task];
  return sizes;
}

// Number of devices of each task that the first devices of the caller are in.
// Errors: INVALID_ARGUMENT for too few devices, for a number of tasks that
// `options` give, and for a tensor outside its device's memory.
absl::StatusOr<std::vector<int>> TaskSizes(absl::Span<const Tensor> tensors,
                                           const AllReduceOptions& options,
                                           const DeviceManager& devices) {
  if (tensors.size() > devices.devices().size()) {
    return Invalid("got ", tensors.size(), " tensors for ",
                   devices.devices().size(), " devices");
  }
  if (options.num_tasks != 1) {
    return Invalid("num_tasks is ", options.num_tasks,
                   "; the names of the devices given say their tasks");
  }
  std::map<std::string, int> sizes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Device& device = *devices.devices()[i];
    ++sizes[device.attributes().name.TaskName()];
    if (tensors[i].size_bytes() == 0) continue;
    ASSIGN_OR_RETURN(const TensorPlace place, device.PlaceOf(tensors[i]));
    const bool is_there =
        (place == TensorPlace::kHost) == device.has_host_memory();
    if (is_there && place != TensorPlace::kElsewhere) continue;
    return Invalid(
        "tensor ", i, " is ",
        place == TensorPlace::kHost ? "in host memory" : "on another device",
        ", wanted in the memory of ", device.full_name());
  }
  std::vector<int> numbers;
  for (const auto& [task, size] : sizes) numbers.push_back(size);
  return numbers;
}

}  // namespace

// Groups of local devices, by number of tasks and of devices, with the
// instances that each group has run. Thread-safe.
class SingleController::Groups {
 public:
  // `caller_devices` is null if the groups make their devices.
  Groups(const Environment& environment, const DeviceManager* caller_devices)
      : environment_(environment), caller_devices_(caller_devices) {}

  const DeviceManager* caller_devices() const { return caller_devices_; }

  // Group and instance that run a call.
  struct Place {
    std::shared_ptr<LocalGroup> group;
    InstanceKey instance = 0;
  };
  absl::StatusOr<Place> PlaceFor(const CollectiveRequest& request,
                                 const std::vector<int>& task_sizes)
      ABSL_LOCKS_EXCLUDED(mu_);

  int64_t NextStepId() { return ++num_calls_; }

 private:
  // Properties shared by calls that use one instance. Calls with custom ops
  // have no kind.
  struct Kind {
    DType dtype = DType::kFloat32;
    TensorShape shape;
    ReductionKind reduction = ReductionKind::kSum;
    std::string final_op;  // Name of the op.
    std::string implementation;
    std::vector<int> subdiv_offsets;
    std::vector<int> rank_list;

    friend bool operator==(const Kind&, const Kind&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Kind& kind) {
      return H::combine(std::move(h), kind.dtype, kind.shape.dims(),
                        kind.reduction, kind.final_op, kind.implementation,
                        kind.subdiv_offsets, kind.rank_list);
    }
  };
  static Kind KindOf(const CollectiveRequest& request);

  absl::StatusOr<std::shared_ptr<LocalGroup>> MakeGroup(
      const std::vector<int>& task_sizes) const;

  // Devices with their group, and the instances that the group has run.
  struct Devices {
    std::shared_ptr<LocalGroup> group;
    InstanceKey last_instance = 0;
    absl::flat_hash_map<Kind, InstanceKey> instances;
  };

  const Environment environment_;
  const DeviceManager* const caller_devices_;
  std::atomic<int64_t> num_calls_{0};
  Mutex mu_;
  std::map<std::pair<size_t, int>, Devices> devices_
      ABSL_GUARDED_BY(mu_);  // Keyed by number of tasks and of devices.
};

SingleController::Groups::Kind SingleController::Groups::KindOf(
    const CollectiveRequest& request) {
  const CollImplDetails& details = request.impl_details;
  return {.dtype = request.dtype,
          .shape = request.shape,
          .reduction = request.merge_op.kind(),
          .final_op = std::string(request.final_op.name()),
          .implementation = details.implementation,
          .subdiv_offsets = details.subdiv_offsets,
          .rank_list = details.rank_list};
}

absl::StatusOr<SingleController::Groups::Place>
SingleController::Groups::PlaceFor(const CollectiveRequest& request,
                                   const std::vector<int>& task_sizes) {
  const int size = std::accumulate(task_sizes.begin(), task_sizes.end(), 0);
  const bool is_custom =
      request.merge_op.is_custom() || request.final_op.is_custom();
  const Kind kind = is_custom ? Kind() : KindOf(request);
  // Destroyed after the lock is released, or later with the last call that uses
  // the group.
  Devices full;
  MutexLock lock(&mu_);
  Devices& devices = devices_[{task_sizes.size(), size}];
  const auto known = devices.instances.find(kind);
  if (!is_custom && known != devices.instances.end()) {
    return Place{devices.group, known->second};
  }
  if (devices.last_instance >= MaxInstances(size)) {
    std::swap(full, devices);
  }
  if (devices.group == nullptr) {
    ASSIGN_OR_RETURN(devices.group, MakeGroup(task_sizes));
  }
  const InstanceKey instance = ++devices.last_instance;
  if (!is_custom) devices.instances.emplace(kind, instance);
  return Place{devices.group, instance};
}

absl::StatusOr<std::shared_ptr<LocalGroup>> SingleController::Groups::MakeGroup(
    const std::vector<int>& task_sizes) const {
  const auto size = static_cast<size_t>(
      std::accumulate(task_sizes.begin(), task_sizes.end(), 0));
  if (caller_devices_ != nullptr)
    return LocalGroup::Create(environment_, caller_devices_, size);
  struct Owned {
    std::unique_ptr<DeviceManager> devices;
    std::unique_ptr<LocalGroup> group;
  };
  const auto owned = std::make_shared<Owned>();
  ASSIGN_OR_RETURN(owned->devices,
                   DeviceManager::CreateCpu(task_sizes, environment_.random));
  ASSIGN_OR_RETURN(owned->group, LocalGroup::Create(
                                     environment_, owned->devices.get(), size));
  return std::shared_ptr<LocalGroup>(owned, owned->group.get());
}

SingleController::SingleController(const Environment& environment)
    : SingleController(environment, nullptr) {}

SingleController::SingleController(const Environment& environment,
                                   const DeviceManager* devices)
    : groups_(std::make_unique<Groups>(environment, devices)) {}

SingleController::~SingleController() = default;

absl::StatusOr<std::vector<Tensor>> SingleController::AllReduce(
    absl::Span<const Tensor> tensors, const AllReduceOptions& options) {
  RETURN_IF_ERROR(CheckTensors(tensors));
  const auto size = static_cast<int>(tensors.size());
  const DeviceManager* const devices = groups_->caller_devices();
  ASSIGN_OR_RETURN(const std::vector<int> task_sizes,
                   devices == nullptr ? TaskSizes(size, options.num_tasks)
                                      : TaskSizes(tensors, options, *devices));
  const int devices_per_task =
      *std::min_element(task_sizes.begin(), task_sizes.end());
  RETURN_IF_ERROR(CheckOptions(options, size, devices_per_task));
  CollectiveRequest request;
  request.op = tutti::AllReduce();
  request.dtype = tensors.front().dtype();
  request.shape = tensors.front().shape();
  request.merge_op = options.reduction;
  request.final_op = options.final_op;
  request.impl_details = DetailsOf(options, devices_per_task);
  RETURN_IF_ERROR(
      CheckAlgorithm(request.impl_details.implementation, options, size));
  ASSIGN_OR_RETURN(const auto place, groups_->PlaceFor(request, task_sizes));
  request.instance_key = place.instance;
  const int64_t step_id = groups_->NextStepId();
  auto reduced = place.group->Run(step_id, std::move(request), tensors);
  place.group->manager().Cleanup(step_id);
  return reduced;
}

}  // namespace tutti
