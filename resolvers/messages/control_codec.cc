#include "resolvers/messages/control_codec.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "tutti/collective.h"

namespace tutti {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr int kMaxDependencies = 4096;

// First demand for determinism; demands are counted from here, and 0 is none.
constexpr int kNoDemand = static_cast<int>(Determinism::kNotGuaranteed);

// Shortens text for error messages, and keeps only printable characters.
std::string Shown(absl::string_view text) {
  constexpr size_t kMost = 40;
  return absl::StrCat("\"", absl::CEscape(text.substr(0, kMost)),
                      text.size() > kMost ? "..." : "", "\"");
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidMessage(field, " is ", value, "; wanted ", low, " to ", high);
}

absl::Status CheckCount(absl::string_view field, int count, int64_t most) {
  if (count <= most) return absl::OkStatus();
  return InvalidMessage(field, " has ", count, " entries; wanted at most ",
                        most);
}

absl::Status CheckType(absl::string_view field, absl::string_view type) {
  if (type.empty()) return InvalidMessage(field, " is empty");
  if (type.find(':') != absl::string_view::npos) {
    return InvalidMessage(field, " is ", Shown(type),
                          "; wanted a name without colons");
  }
  return CheckName(field, type);
}

template <typename T, typename Field>
std::vector<T> ToVector(const Field& field) {
  return std::vector<T>(field.begin(), field.end());
}

absl::Status DecodeLibraries(const proto::Device& message,
                             DeviceAttributes* device) {
  RETURN_IF_ERROR(CheckCount("device.libraries", message.libraries_size(),
                             kMaxLibrariesOfDevice));
  for (const std::string& name : message.libraries()) {
    if (name.empty())
      return InvalidMessage("device.libraries has an empty name");
    RETURN_IF_ERROR(CheckName("device.libraries", name));
    device->libraries.push_back(name);
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceAttributes> DecodeDevice(const ClusterSpec& cluster,
                                              const ControlCaller& owner,
                                              const proto::Device& message) {
  if (message.task() != owner.task || owner.task < 0 ||
      owner.task >= cluster.num_tasks()) {
    return InvalidMessage("device.task is ", message.task(), ", but ",
                          cluster.Label(owner.task),
                          " says so; wanted its own");
  }
  if (message.incarnation() != owner.incarnation) {
    return InvalidMessage("device.incarnation is ", message.incarnation(),
                          ", but ", cluster.Label(owner.task), " has ",
                          owner.incarnation);
  }
  RETURN_IF_ERROR(CheckType("device.type", message.type()));
  RETURN_IF_ERROR(
      CheckRange("device.index", message.index(), 0, kMaxDeviceIndex));
  RETURN_IF_ERROR(
      CheckCount("device.links", message.links_size(), kMaxDevicesOfTask));
  DeviceAttributes device;
  device.name = {cluster.job, 0, message.task(), message.type(),
                 message.index()};
  device.incarnation = message.incarnation();
  for (const proto::Link& link : message.links()) {
    RETURN_IF_ERROR(CheckRange("link.device_index", link.device_index(), 0,
                               kMaxDeviceIndex));
    device.locality.links.push_back({link.device_index(), link.strength()});
  }
  RETURN_IF_ERROR(DecodeLibraries(message, &device));
  RETURN_IF_ERROR(CheckName("device.unit", message.unit()));
  device.unit = message.unit();
  return device;
}

void EncodeOp(const CollectiveOp& op, proto::Request* message) {
  message->set_collective(static_cast<int>(op.index()));
  const auto encode = [message](const auto& typed) {
    if constexpr (requires { typed.uneven; }) {
      message->set_uneven(typed.uneven);
    }
    if constexpr (requires { typed.rows; }) {
      message->mutable_rows()->Add(typed.rows.begin(), typed.rows.end());
    }
    if constexpr (requires { typed.is_source; }) {
      message->set_is_source(typed.is_source);
    }
    if constexpr (requires { typed.send_rows; }) {
      message->mutable_send_rows()->Add(typed.send_rows.begin(),
                                        typed.send_rows.end());
    }
    if constexpr (requires { typed.recv_rows; }) {
      message->mutable_recv_rows()->Add(typed.recv_rows.begin(),
                                        typed.recv_rows.end());
    }
    if constexpr (requires { typed.permutation; }) {
      message->mutable_permutation()->Add(typed.permutation.begin(),
                                          typed.permutation.end());
    }
    if constexpr (requires { typed.root; }) message->set_root(typed.root);
  };
  std::visit(encode, op);
}

absl::StatusOr<CollectiveOp> DecodeOp(const proto::Request& message) {
  const int number = message.collective();
  RETURN_IF_ERROR(
      CheckRange("request.collective", number, 0,
                 static_cast<int64_t>(kAllCollectiveTypes.size()) - 1));
  RETURN_IF_ERROR(
      CheckCount("request.send_rows", message.send_rows_size(), kMaxGroupSize));
  RETURN_IF_ERROR(
      CheckCount("request.recv_rows", message.recv_rows_size(), kMaxGroupSize));
  RETURN_IF_ERROR(
      CheckCount("request.rows", message.rows_size(), kMaxGroupSize));
  RETURN_IF_ERROR(CheckCount("request.permutation", message.permutation_size(),
                             kMaxGroupSize));
  CollectiveOp op = DefaultOp(static_cast<CollectiveType>(number));
  const auto decode = [&message](auto& typed) {
    if constexpr (requires { typed.uneven; }) typed.uneven = message.uneven();
    if constexpr (requires { typed.rows; }) {
      typed.rows = ToVector<int64_t>(message.rows());
    }
    if constexpr (requires { typed.is_source; }) {
      typed.is_source = message.is_source();
    }
    if constexpr (requires { typed.send_rows; }) {
      typed.send_rows = ToVector<int64_t>(message.send_rows());
    }
    if constexpr (requires { typed.recv_rows; }) {
      typed.recv_rows = ToVector<int64_t>(message.recv_rows());
    }
    if constexpr (requires { typed.permutation; }) {
      typed.permutation = ToVector<int>(message.permutation());
    }
    if constexpr (requires { typed.root; }) typed.root = message.root();
  };
  std::visit(decode, op);
  return op;
}

absl::StatusOr<MergeOp> DecodeMergeOp(const proto::Request& message) {
  RETURN_IF_ERROR(CheckName("request.merge_op", message.merge_op()));
  if (!message.merge_op_is_custom()) {
    const auto kind = ParseReductionKind(message.merge_op());
    if (kind.ok()) return MergeOp(*kind);
    return InvalidMessage("request.merge_op: ", kind.status().message());
  }
  return MergeOp::Custom(
      {.name = message.merge_op(),
       .commutative = message.merge_op_commutative(),
       .apply = [name = message.merge_op()](auto&&...) {
         return absl::InternalError(absl::StrCat(
             "merge op ", name, " is another task's: it cannot run here"));
       }});
}

absl::StatusOr<FinalOp> DecodeFinalOp(const proto::Request& message) {
  const std::string& name = message.final_op();
  RETURN_IF_ERROR(CheckName("request.final_op", name));
  if (message.final_op_is_custom()) {
    return FinalOp::Custom(
        {.name = name, .apply = [name](auto&&...) {
           return absl::InternalError(absl::StrCat(
               "final op ", name, " is another task's: it cannot run here"));
         }});
  }
  for (const FinalOp& known : {FinalOp(), FinalOp::DivideByGroupSize()}) {
    if (name == known.name()) return known;
  }
  return InvalidMessage("request.final_op is ", Shown(name), "; wanted ",
                        FinalOp().name(), " or ",
                        FinalOp::DivideByGroupSize().name());
}

absl::StatusOr<CollImplDetails> DecodeDetails(const proto::Request& message) {
  RETURN_IF_ERROR(
      CheckName("request.implementation", message.implementation()));
  RETURN_IF_ERROR(CheckCount("request.subdiv_offsets",
                             message.subdiv_offsets_size(), kMaxSubdivisions));
  RETURN_IF_ERROR(
      CheckCount("request.rank_list", message.rank_list_size(), kMaxGroupSize));
  RETURN_IF_ERROR(CheckCount("request.dependencies",
                             message.dependencies_size(), kMaxDependencies));
  RETURN_IF_ERROR(
      CheckRange("request.determinism", message.determinism(), 0, kNoDemand));
  CollImplDetails details;
  details.implementation = message.implementation();
  details.subdiv_offsets = ToVector<int>(message.subdiv_offsets());
  details.rank_list = ToVector<int>(message.rank_list());
  details.max_subdivs_per_device = message.max_subdivs_per_device();
  details.determinism =
      static_cast<Determinism>(kNoDemand - message.determinism());
  for (const proto::InstanceName& name : message.dependencies()) {
    details.dependencies.push_back({name.group_key(), name.instance_key()});
  }
  return details;
}

proto::Request EncodeRequest(const CollectiveRequest& request) {
  proto::Request message;
  message.set_group_key(request.group_key);
  message.set_group_size(request.group_size);
  message.set_device_type(request.device_type);
  message.set_rank(request.rank);
  message.set_instance_key(request.instance_key);
  EncodeOp(request.op, &message);
  message.set_dtype(static_cast<int>(request.dtype));
  message.mutable_shape()->Add(request.shape.dims().begin(),
                               request.shape.dims().end());
  message.set_merge_op(std::string(request.merge_op.name()));
  message.set_merge_op_commutative(request.merge_op.commutative());
  message.set_merge_op_is_custom(request.merge_op.is_custom());
  message.set_final_op(std::string(request.final_op.name()));
  message.set_final_op_is_custom(request.final_op.is_custom());
  const CollImplDetails& details = request.impl_details;
  message.set_implementation(details.implementation);
  message.mutable_subdiv_offsets()->Add(details.subdiv_offsets.begin(),
                                        details.subdiv_offsets.end());
  message.mutable_rank_list()->Add(details.rank_list.begin(),
                                   details.rank_list.end());
  message.set_max_subdivs_per_device(details.max_subdivs_per_device);
  message.set_determinism(kNoDemand - static_cast<int>(details.determinism));
  for (InstanceId id : details.dependencies) {
    proto::InstanceName* const name = message.add_dependencies();
    name->set_group_key(id.group_key);
    name->set_instance_key(id.instance_key);
  }
  return message;
}

absl::StatusOr<CollectiveRequest> DecodeRequest(const proto::Request& message) {
  RETURN_IF_ERROR(
      CheckRange("request.group_size", message.group_size(), 1, kMaxGroupSize));
  RETURN_IF_ERROR(CheckType("request.device_type", message.device_type()));
  RETURN_IF_ERROR(CheckRange("request.dtype", message.dtype(), 0,
                             static_cast<int64_t>(kAllDTypes.size()) - 1));
  RETURN_IF_ERROR(CheckCount("request.shape", message.shape_size(), kMaxDims));
  ASSIGN_OR_RETURN(auto op, DecodeOp(message));
  auto shape = TensorShape::Create(ToVector<int64_t>(message.shape()));
  if (!shape.ok()) return InvalidMessage("request.", shape.status().message());
  ASSIGN_OR_RETURN(auto merge_op, DecodeMergeOp(message));
  ASSIGN_OR_RETURN(auto final_op, DecodeFinalOp(message));
  ASSIGN_OR_RETURN(auto details, DecodeDetails(message));
  CollectiveRequest request;
  request.group_key = message.group_key();
  request.group_size = message.group_size();
  request.device_type = message.device_type();
  request.rank = message.rank();
  request.instance_key = message.instance_key();
  request.op = std::move(op);
  request.dtype = static_cast<DType>(message.dtype());
  request.shape = *std::move(shape);
  request.merge_op = std::move(merge_op);
  request.final_op = std::move(final_op);
  request.impl_details = std::move(details);
  RETURN_IF_ERROR(Validate(request));
  return request;
}

}  // namespace

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return InvalidMessage(field, " has ", name.size(), " bytes, ", Shown(name),
                          "; wanted at most ", kMaxNameBytes);
  }
  const bool is_plain = std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  if (is_plain) return absl::OkStatus();
  return InvalidMessage(field, " is ", Shown(name),
                        "; wanted no slash and no control character");
}

absl::Status CheckGeneration(absl::string_view field, uint64_t generation) {
  if (generation <= kMaxGeneration) return absl::OkStatus();
  return InvalidMessage(field, " is ", generation, "; wanted at most ",
                        kMaxGeneration);
}

absl::StatusOr<proto::CompleteParams> EncodeMemberCall(const MemberCall& call) {
  proto::CompleteParams message;
  EncodeDevice(call.device, message.mutable_device());
  *message.mutable_request() = EncodeRequest(*call.request);
  message.set_ended_generation(call.ended_generation);
  message.set_living_generation(call.living_generation);
  message.set_group_only(!call.number.has_value());
  if (call.number.has_value()) {
    message.set_step(call.number->step_id);
    message.set_execution(call.number->execution);
  }
  const proto::Request& request = message.request();
  RETURN_IF_ERROR(CheckType("the device type", request.device_type()));
  RETURN_IF_ERROR(CheckName("the merge op", request.merge_op()));
  RETURN_IF_ERROR(CheckName("the final op", request.final_op()));
  RETURN_IF_ERROR(CheckName("the implementation", request.implementation()));
  return message;
}

absl::StatusOr<MemberCall> DecodeMemberCall(
    const ClusterSpec& cluster, const ControlCaller& caller,
    const proto::CompleteParams& message) {
  MemberCall call;
  ASSIGN_OR_RETURN(call.device,
                   DecodeDevice(cluster, caller, message.device()));
  ASSIGN_OR_RETURN(auto request, DecodeRequest(message.request()));
  call.request = std::make_shared<const CollectiveRequest>(std::move(request));
  call.ended_generation = message.ended_generation();
  call.living_generation = message.living_generation();
  if (!message.group_only()) {
    call.number = {.step_id = message.step(), .execution = message.execution()};
  }
  RETURN_IF_ERROR(CheckGeneration("ended_generation", call.ended_generation));
  RETURN_IF_ERROR(CheckGeneration("living_generation", call.living_generation));
  if (call.living_generation != 0 &&
      call.living_generation <= call.ended_generation) {
    return InvalidMessage("living_generation is ", call.living_generation,
                          ", but ended_generation ", call.ended_generation);
  }
  return call;
}

void EncodeDevice(const DeviceAttributes& device, proto::Device* message) {
  message->set_task(device.name.task);
  message->set_type(device.name.type);
  message->set_index(device.name.index);
  message->set_incarnation(device.incarnation);
  for (const DeviceLink& link : device.locality.links) {
    proto::Link* const added = message->add_links();
    added->set_device_index(link.device_index);
    added->set_strength(link.strength);
  }
  for (const std::string& name : device.libraries) message->add_libraries(name);
  message->set_unit(device.unit);
}

absl::StatusOr<std::vector<DeviceAttributes>> DecodeDevices(
    const ClusterSpec& cluster, const ControlCaller& owner,
    const google::protobuf::RepeatedPtrField<proto::Device>& messages) {
  RETURN_IF_ERROR(CheckCount("devices", messages.size(), kMaxDevicesOfTask));
  std::vector<DeviceAttributes> devices;
  absl::flat_hash_set<std::pair<std::string, int>> seen;
  for (const proto::Device& message : messages) {
    ASSIGN_OR_RETURN(auto device, DecodeDevice(cluster, owner, message));
    if (!seen.emplace(device.name.type, device.name.index).second) {
      return InvalidMessage("devices has ", device.name.ToString(), " twice");
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

absl::StatusOr<std::map<int, std::vector<DeviceAttributes>>>
DecodeDevicesOfTasks(
    const ClusterSpec& cluster,
    const google::protobuf::RepeatedPtrField<proto::Device>& messages) {
  std::map<int, google::protobuf::RepeatedPtrField<proto::Device>> of_task;
  for (const proto::Device& message : messages) {
    *of_task[message.task()].Add() = message;
  }
  std::map<int, std::vector<DeviceAttributes>> devices;
  for (const auto& [task, of_it] : of_task) {
    RETURN_IF_ERROR(CheckRange("task", task, 0, cluster.num_tasks() - 1));
    ASSIGN_OR_RETURN(
        devices[task],
        DecodeDevices(cluster, {task, of_it[0].incarnation()}, of_it));
  }
  return devices;
}

absl::StatusOr<std::vector<int>> DecodeTasks(
    const ClusterSpec& cluster,
    const google::protobuf::RepeatedField<int32_t>& tasks) {
  RETURN_IF_ERROR(CheckCount("tasks", tasks.size(), cluster.num_tasks()));
  for (int task : tasks) {
    RETURN_IF_ERROR(CheckRange("tasks", task, 0, cluster.num_tasks() - 1));
  }
  return ToVector<int>(tasks);
}

absl::Status CheckNumTasks(const ClusterSpec& cluster, int task,
                           int num_tasks) {
  const absl::Status status =
      CheckRange("num_tasks", num_tasks, 1, kMaxGroupSize);
  if (!status.ok() || num_tasks == cluster.num_tasks()) return status;
  return absl::FailedPreconditionError(absl::StrCat(
      cluster.Label(task), " has a cluster of ", num_tasks,
      num_tasks == 1 ? " task, " : " tasks, ", cluster.Label(cluster.this_task),
      " one of ", cluster.num_tasks()));
}

}  // namespace tutti
