#include "resolvers/messages/group_codec.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/group_resources.h"
#include "framework/collective/op_fields.h"
#include "resolvers/messages/control_codec.h"

namespace tutti {
namespace {

// Counts the members before any is made.
absl::StatusOr<int> CountMembers(const ClusterSpec& cluster, int group_size,
                                 const proto::Group& message) {
  int64_t total = 0;
  for (const proto::MemberRange& range : message.members()) {
    if (range.first_task() < 0 || range.num_tasks() < 1 ||
        range.num_tasks() > cluster.num_tasks() ||
        range.first_task() > cluster.num_tasks() - range.num_tasks()) {
      return InvalidMessage("group.members has ", range.num_tasks(),
                            " tasks from ", range.first_task(),
                            " on; wanted tasks 0 to ", cluster.num_tasks() - 1);
    }
    if (range.incarnations_size() != range.num_tasks()) {
      return InvalidMessage("group.members.incarnations has ",
                            range.incarnations_size(), " entries for ",
                            range.num_tasks(), " tasks");
    }
    if (range.device_indices_size() < 1) {
      return InvalidMessage("group.members.device_indices is empty");
    }
    total +=
        static_cast<int64_t>(range.num_tasks()) * range.device_indices_size();
    if (total > group_size) break;
  }
  if (total == group_size) return group_size;
  return InvalidMessage("group.members has ",
                        total > group_size ? "more than " : "only ",
                        std::min<int64_t>(total, group_size),
                        " members; wanted are ", group_size);
}

absl::Status DecodeRange(const ClusterSpec& cluster,
                         const proto::MemberRange& range,
                         CollGroupParams* group) {
  for (int i = 0; i < range.num_tasks(); ++i) {
    for (int index : range.device_indices()) {
      if (index < 0 || index > kMaxDeviceIndex) {
        return InvalidMessage("group.members.device_indices has ", index,
                              "; wanted 0 to ", kMaxDeviceIndex);
      }
      group->members.push_back(
          {{.name = {cluster.job, 0, range.first_task() + i, group->device_type,
                     index},
            .incarnation = range.incarnations(i)}});
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMembersDiffer(const CollGroupParams& group) {
  absl::flat_hash_set<std::pair<int, int>> seen;
  for (const CollGroupMember& member : group.members) {
    const DeviceName& name = member.device.name;
    if (!seen.emplace(name.task, name.index).second) {
      return InvalidMessage("group.members has ", name.ToString(), " twice");
    }
  }
  return absl::OkStatus();
}

absl::Status SetLayout(CollGroupParams* group) {
  std::vector<int> task_of_rank;
  for (const CollGroupMember& member : group->members) {
    task_of_rank.push_back(member.device.name.task);
  }
  ASSIGN_OR_RETURN(auto layout, GroupLayout::Create(task_of_rank));
  group->layout = std::make_shared<const GroupLayout>(std::move(layout));
  return absl::OkStatus();
}

// Returns the rank after the last rank of the task that `rank` is in.
int EndOfTask(const CollGroupParams& group, int rank) {
  const int task = group.members[rank].device.name.task;
  while (rank < group.size() && group.members[rank].device.name.task == task) {
    ++rank;
  }
  return rank;
}

bool Continues(const proto::MemberRange& range,
               const proto::MemberRange& next) {
  return range.first_task() + range.num_tasks() == next.first_task() &&
         std::equal(range.device_indices().begin(),
                    range.device_indices().end(), next.device_indices().begin(),
                    next.device_indices().end());
}

// Returns the number of elements of CollInstanceParams::rows.
int64_t NumRows(const CollectiveRequest& request, int64_t size) {
  if (!IsUneven(request.op)) return 0;
  if (!ExchangesBlocks(TypeOf(request.op))) return size;
  return size * (GivesRows(request.op) ? 2 : size);
}

// Returns true if the rows that this rank has requested are in their place.
// Rows of one execution may be of another one.
bool HasOwnRows(const CollectiveRequest& request, int rank,
                const std::vector<int64_t>& rows) {
  if (GivesRows(request.op)) return true;
  const std::vector<int64_t> known = KnownRows(request);
  if (!known.empty()) return rows == known;
  const auto* exchange = std::get_if<AllToAll>(&request.op);
  if (exchange == nullptr) return rows[rank] == request.shape.dim(0);
  const std::vector<int64_t>& sent = exchange->send_rows;
  return std::equal(sent.begin(), sent.end(),
                    rows.begin() + rank * sent.size());
}

// Checks that each rank's rows can be added up, and that this rank's rows are
// the request's.
absl::Status CheckRows(const CollectiveRequest& request, int rank,
                       const std::vector<int64_t>& rows) {
  if (rows.empty()) return absl::OkStatus();
  if (!HasOwnRows(request, rank, rows)) {
    return InvalidMessage("instance.rows differs from what rank ", rank,
                          " asks for");
  }
  const bool is_by_rank = ExchangesBlocks(TypeOf(request.op));
  int64_t total = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (is_by_rank && i % request.group_size == 0) total = 0;
    if (rows[i] < 0 || __builtin_add_overflow(total, rows[i], &total)) {
      return InvalidMessage("instance.rows has ", rows[i],
                            ", which is out of range");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorShape> DecodeShape(const CollectiveRequest& request,
                                        const proto::Instance& message) {
  if (message.shape_size() > kMaxDims) {
    return InvalidMessage("instance.shape has ", message.shape_size(),
                          " dimensions; wanted at most ", kMaxDims);
  }
  auto shape = TensorShape::Create(
      std::vector<int64_t>(message.shape().begin(), message.shape().end()));
  if (!shape.ok()) return InvalidMessage("instance.", shape.status().message());
  if (*shape == request.shape || std::holds_alternative<Barrier>(request.op)) {
    return shape;
  }
  const bool may_differ = message.rows_size() > 0;
  if (may_differ && shape->num_dims() > 0) {
    const auto own = request.shape.WithFirstDim(shape->dim(0));
    if (own.ok() && *own == *shape) return shape;
  }
  return InvalidMessage("instance.shape is ", shape->ToString(),
                        ", but this member's ", request.shape.ToString());
}

absl::Status CheckImplementation(const proto::Instance& message, int size) {
  if (message.implementation().empty()) {
    return InvalidMessage("instance.implementation is empty");
  }
  RETURN_IF_ERROR(
      CheckName("instance.implementation", message.implementation()));
  const int num_offsets = message.subdiv_offsets_size();
  if (num_offsets <= kMaxSubdivisions &&
      int64_t{num_offsets} * size <= kMaxChunks) {
    return absl::OkStatus();
  }
  return InvalidMessage("instance.subdiv_offsets has ", num_offsets,
                        " entries for a group of ", size);
}

absl::Status CheckRoot(const CollectiveRequest& request, int size, int rank,
                       int root) {
  if (root < 0 || root >= size) {
    return InvalidMessage("instance.root is ", root, " in a group of ", size);
  }
  const auto* broadcast = std::get_if<Broadcast>(&request.op);
  if (broadcast != nullptr && broadcast->is_source != (rank == root)) {
    return InvalidMessage(
        "instance.root is ", root, ", but rank ", rank, " is ",
        broadcast->is_source ? "the source" : "not the source");
  }
  const int wanted =
      broadcast != nullptr ? root : RootOf(request.op).value_or(0);
  if (root == wanted) return absl::OkStatus();
  return InvalidMessage("instance.root is ", root, "; this member asked for ",
                        wanted);
}

}  // namespace

proto::Group EncodeGroup(const CollGroupParams& group) {
  proto::Group message;
  message.set_group_key(group.key);
  message.set_generation(group.generation);
  message.set_device_type(group.device_type);
  message.set_communicator_key(group.runtime_details.communicator_key);
  for (int rank = 0; rank < group.size();) {
    const int end = EndOfTask(group, rank);
    proto::MemberRange next;
    next.set_first_task(group.members[rank].device.name.task);
    next.set_num_tasks(1);
    next.add_incarnations(group.members[rank].device.incarnation);
    for (; rank < end; ++rank) {
      next.add_device_indices(group.members[rank].device.name.index);
    }
    proto::MemberRange* const last =
        message.members_size() == 0
            ? nullptr
            : message.mutable_members(message.members_size() - 1);
    if (last != nullptr && Continues(*last, next)) {
      last->set_num_tasks(last->num_tasks() + 1);
      last->add_incarnations(next.incarnations(0));
    } else {
      *message.add_members() = std::move(next);
    }
  }
  return message;
}

absl::StatusOr<std::shared_ptr<CollGroupParams>> DecodeGroup(
    const ClusterSpec& cluster, const CollectiveRequest& request,
    const proto::Group& message) {
  if (message.group_key() != request.group_key) {
    return InvalidMessage("group.group_key is ", message.group_key(),
                          "; wanted ", request.group_key);
  }
  RETURN_IF_ERROR(CheckGeneration("group.generation", message.generation()));
  if (message.generation() == 0) return InvalidMessage("group.generation is 0");
  if (message.device_type() != request.device_type) {
    return InvalidMessage("group.device_type is not ", request.device_type);
  }
  ASSIGN_OR_RETURN(const auto count,
                   CountMembers(cluster, request.group_size, message));
  auto group = std::make_shared<CollGroupParams>();
  group->key = message.group_key();
  group->generation = message.generation();
  group->device_type = message.device_type();
  group->members.reserve(count);
  for (const proto::MemberRange& range : message.members()) {
    RETURN_IF_ERROR(DecodeRange(cluster, range, group.get()));
  }
  RETURN_IF_ERROR(CheckMembersDiffer(*group));
  RETURN_IF_ERROR(SetLayout(group.get()));
  group->runtime_details.communicator_key = message.communicator_key();
  group->cancellation = std::make_shared<Cancellation>();
  group->resources = std::make_shared<GroupResources>();
  return group;
}

proto::Instance EncodeInstance(const CollInstanceParams& instance) {
  proto::Instance message;
  message.set_root(instance.root);
  message.mutable_shape()->Add(instance.shape.dims().begin(),
                               instance.shape.dims().end());
  message.mutable_rows()->Add(instance.rows.begin(), instance.rows.end());
  const CollImplDetails& details = instance.impl_details;
  message.set_implementation(details.implementation);
  message.mutable_subdiv_offsets()->Add(details.subdiv_offsets.begin(),
                                        details.subdiv_offsets.end());
  return message;
}

absl::StatusOr<CollInstanceParams> DecodeInstance(
    const CollectiveRequest& request, const CollGroupParams& group, int rank,
    const proto::Instance& message) {
  const int size = group.size();
  RETURN_IF_ERROR(CheckRoot(request, size, rank, message.root()));
  RETURN_IF_ERROR(CheckImplementation(message, size));
  if (message.rows_size() != NumRows(request, size)) {
    return InvalidMessage("instance.rows has ", message.rows_size(),
                          " entries; wanted ", NumRows(request, size));
  }
  ASSIGN_OR_RETURN(auto shape, DecodeShape(request, message));
  CollInstanceParams instance = InstanceOf(request);
  instance.rows.assign(message.rows().begin(), message.rows().end());
  RETURN_IF_ERROR(CheckRows(request, rank, instance.rows));
  instance.shape = std::move(shape);
  instance.root = message.root();
  instance.impl_details.implementation = message.implementation();
  instance.impl_details.subdiv_offsets.assign(message.subdiv_offsets().begin(),
                                              message.subdiv_offsets().end());
  return instance;
}

}  // namespace tutti
