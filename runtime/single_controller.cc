#include "runtime/single_controller.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/collective_request.h"
#include "framework/dtype.h"
#include "framework/implementation_traits.h"
#include "framework/registry.h"

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

absl::Status CheckOptions(const AllReduceOptions& options, int num_tensors) {
  if (options.num_tasks < 1 || num_tensors % options.num_tasks != 0) {
    return Invalid(num_tensors, " tensors cannot lie on ", options.num_tasks,
                   " tasks, equally many on each");
  }
  const int devices_per_task = num_tensors / options.num_tasks;
  if (options.num_subchunks < 0 || options.num_subchunks > devices_per_task) {
    return Invalid("num_subchunks is ", options.num_subchunks,
                   "; wanted 0 to the ", devices_per_task, " devices per task");
  }
  if (!options.ring_order.empty() && !options.gather_devices.empty()) {
    return Invalid("got both ring_order and gather_devices");
  }
  if (!options.ring_order.empty() &&
      options.ring_order.size() != static_cast<size_t>(num_tensors)) {
    return Invalid("ring_order [", absl::StrJoin(options.ring_order, ","),
                   "] is not an order of ", num_tensors, " tensors");
  }
  return absl::OkStatus();
}

std::string AlgorithmOf(const AllReduceOptions& options) {
  if (!options.algorithm.empty()) return options.algorithm;
  if (!options.gather_devices.empty()) return "ShuffleReduce";
  const bool is_ring = !options.ring_order.empty() || options.num_subchunks > 0;
  return is_ring ? "RingReduce" : "";
}

// Names that are not known are left to the resolver, which says which are.
absl::Status CheckAlgorithm(const std::string& name,
                            const AllReduceOptions& options, int num_tensors) {
  const auto factory = CollectiveRegistry::Global().Find(name);
  if (!factory.ok()) return absl::OkStatus();
  const RankListUse use = (*factory)->traits().rank_list;
  if (use == RankListUse::kAllRanks && num_tensors < 2) {
    return Invalid(name, " goes round a ring of at least 2 tensors; got ",
                   num_tensors);
  }
  if (!options.ring_order.empty() && use != RankListUse::kAllRanks) {
    return Invalid(name, " has no ring for ring_order [",
                   absl::StrJoin(options.ring_order, ","), "]");
  }
  if (!options.gather_devices.empty() && use != RankListUse::kOwners) {
    return Invalid(name, " has no use for gather_devices [",
                   absl::StrJoin(options.gather_devices, ","), "]");
  }
  return absl::OkStatus();
}

CollImplDetails DetailsOf(const AllReduceOptions& options) {
  CollImplDetails details;
  details.implementation = AlgorithmOf(options);
  for (int ring = 0; ring < options.num_subchunks; ++ring) {
    details.subdiv_offsets.push_back(ring);
  }
  details.rank_list =
      options.ring_order.empty() ? options.gather_devices : options.ring_order;
  return details;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> SingleController::AllReduce(
    absl::Span<const Tensor> tensors, const AllReduceOptions& options) {
  absl::Status status = CheckTensors(tensors);
  if (!status.ok()) return status;
  const auto size = static_cast<int>(tensors.size());
  status = CheckOptions(options, size);
  if (!status.ok()) return status;
  CollectiveRequest request;
  request.op = tutti::AllReduce();
  request.merge_op = options.reduction;
  request.final_op = options.final_op;
  request.impl_details = DetailsOf(options);
  status = CheckAlgorithm(request.impl_details.implementation, options, size);
  if (!status.ok()) return status;
  const auto group = GroupOf(options.num_tasks, size / options.num_tasks);
  if (!group.ok()) return group.status();
  const int64_t call = ++num_calls_;
  request.instance_key = call;
  auto reduced = (*group)->Run(/*step_id=*/call, std::move(request), tensors);
  (*group)->manager().Cleanup(call);
  return reduced;
}

absl::StatusOr<LocalGroup*> SingleController::GroupOf(int num_tasks,
                                                      int devices_per_task) {
  MutexLock lock(&mu_);
  std::unique_ptr<LocalGroup>& group = groups_[{num_tasks, devices_per_task}];
  if (group == nullptr) {
    auto created =
        LocalGroup::Create(environment_, num_tasks, devices_per_task);
    if (!created.ok()) return created.status();
    group = *std::move(created);
  }
  return group.get();
}

}  // namespace tutti
