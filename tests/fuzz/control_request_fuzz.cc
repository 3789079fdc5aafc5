// Fuzzes the requests of other tasks, up to the check that accepts or refuses
// them.

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "framework/control/wire_codec.h"
#include "named_tensors/coordinator_codec.h"
#include "resolvers/messages/control_codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

constexpr int kMaxDeviceIndex = 65535;
const ControlCaller kCaller{.task = 2, .incarnation = 77};

ClusterSpec Cluster() { return {.addresses = {"a:1", "b:1", "c:1"}}; }

void CheckRefusal(const absl::Status& status) {
  constexpr size_t kMaxMessageBytes = 4096;
  Promise(absl::IsInvalidArgument(status), "what is bad is INVALID_ARGUMENT");
  Promise(status.message().size() <= kMaxMessageBytes,
          "a refusal does not repeat all that it was sent");
}

void CheckDevice(const DeviceAttributes& device) {
  Promise(device.name.task == kCaller.task, "a device is its owner's");
  Promise(device.incarnation == kCaller.incarnation,
          "a device has its owner's incarnation");
  Promise(device.name.index >= 0 && device.name.index <= kMaxDeviceIndex,
          "the index of a device is bounded");
  Promise(!device.name.type.empty() && device.name.type.size() <= 256,
          "the type of a device is a short name");
  Promise(device.locality.links.size() <= kMaxDevicesOfTask,
          "the links of a device are bounded");
  Promise(device.libraries.size() <= kMaxLibrariesOfDevice,
          "the libraries of a device are bounded");
  for (const std::string& name : device.libraries) {
    Promise(!name.empty() && name.size() <= 256, "a library is a short name");
  }
  Promise(device.unit.size() <= 256, "the unit of a device is a short name");
}

void CheckHello(const proto::Hello& message) {
  const auto devices = DecodeDevices(Cluster(), kCaller, message.devices());
  if (!devices.ok()) return CheckRefusal(devices.status());
  Promise(devices->size() <= kMaxDevicesOfTask, "devices are bounded");
  proto::Hello again;
  for (const DeviceAttributes& device : *devices) {
    CheckDevice(device);
    EncodeDevice(device, again.add_devices());
  }
  const auto decoded = DecodeDevices(Cluster(), kCaller, again.devices());
  Promise(decoded.ok() && *decoded == *devices,
          "devices come out as they went in");
}

void CheckNumber(const proto::Hello& message) {
  const absl::Status status =
      CheckNumTasks(Cluster(), kCaller.task, message.num_tasks());
  Promise(status.ok() == (message.num_tasks() == Cluster().num_tasks()),
          "clusters have the same number of tasks");
  if (!absl::IsFailedPrecondition(status) && !status.ok()) CheckRefusal(status);
}

void CheckCall(const proto::CompleteParams& message) {
  const auto call = DecodeMemberCall(Cluster(), kCaller, message);
  if (!call.ok()) return CheckRefusal(call.status());
  CheckDevice(call->device);
  const CollectiveRequest& request = *call->request;
  Promise(Validate(request).ok(), "what is let in is valid");
  Promise(request.group_size >= 1 && request.group_size <= kMaxGroupSize,
          "the size of a group is bounded");
  Promise(request.rank >= -1 && request.rank < request.group_size,
          "a rank is one of the group's");
  Promise(call->ended_generation <= kMaxGeneration &&
              call->living_generation <= kMaxGeneration,
          "generations are bounded");
  const auto again = EncodeMemberCall(*call);
  Promise(again.ok(), "what came can be sent");
  const auto decoded = DecodeMemberCall(Cluster(), kCaller, *again);
  Promise(decoded.ok() && decoded->device == call->device &&
              *decoded->request == request &&
              decoded->ended_generation == call->ended_generation &&
              decoded->living_generation == call->living_generation,
          "a call comes out as it went in");
}

void CheckTensors(const proto::SubmitTensors& message) {
  std::string name_head = message.name_head();
  for (const proto::TensorRequest& one : message.requests()) {
    const auto request = DecodeTensorRequest(std::exchange(name_head, ""), one);
    if (!request.ok()) {
      CheckRefusal(request.status());
      continue;
    }
    Promise(Validate(*request).ok(), "a tensor that is let in is valid");
    proto::TensorRequest again;
    EncodeTensorRequest(*request, &again);
    const auto decoded = DecodeTensorRequest("", again);
    Promise(decoded.ok() && *decoded == *request,
            "a tensor comes out as it went in");
  }
  const auto slots = DecodeSlots(message.slots());
  Promise(DecodeSlots(EncodeSlots(slots)) == slots,
          "slots come out as they went in");
}

void CheckReason(const proto::Error& message) {
  const absl::Status checked = CheckError(message);
  const absl::Status error = DecodeError(message);
  Promise(!error.ok(), "an error is never OK");
  if (!checked.ok()) {
    CheckRefusal(checked);
    return Promise(absl::IsUnknown(error),
                   "an error not understood is UNKNOWN");
  }
  Promise(DecodeError(EncodeError(error)) == error,
          "an error comes out as it went in");
}

CollectiveRequest RequestOf(CollectiveOp op) {
  CollectiveRequest request;
  request.group_key = -3;
  request.group_size = 4;
  request.rank = 2;
  request.instance_key = 9;
  request.op = std::move(op);
  request.dtype = DType::kBFloat16;
  request.shape = TensorShape::Vector(8);
  request.merge_op = ReductionKind::kMax;
  if (!IsScan(TypeOf(request.op))) {
    request.final_op = FinalOp::DivideByGroupSize();
  }
  request.impl_details = {.implementation = "Some",
                          .determinism = Determinism::kFixedLayout,
                          .subdiv_offsets = {0, -2, 7},
                          .rank_list = {1, 0},
                          .dependencies = {{1, 2}, {-3, 4}}};
  return request;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  proto::ControlRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  CheckHello(request.hello());
  CheckNumber(request.hello());
  CheckCall(request.complete_params());
  CheckReason(request.end_group().reason());
  CheckReason(request.cancel_execution().reason());
  CheckReason(request.end_decisions().reason());
  CheckTensors(request.submit_tensors());
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  const DeviceAttributes device{.name = {"worker", 0, 2, "CPU", 1},
                                .locality = {{{0, 5}, {3, -1}}},
                                .incarnation = kCaller.incarnation,
                                .libraries = {"Some", "another"},
                                .unit = "0000:1B:00.0"};
  const std::vector<CollectiveOp> ops = {AllReduce{},
                                         AllGather{.uneven = true},
                                         ReduceScatter{.uneven = true},
                                         Broadcast{.is_source = true},
                                         AllToAll{{5, 0, 1, 2}, {0, 0, 1, 4}},
                                         Permute{.permutation = {3, 1, 0, 2}},
                                         Barrier{},
                                         ReduceToRoot{.root = 3},
                                         GatherToRoot{.root = 2},
                                         ScatterFromRoot{.root = 1},
                                         Scan{},
                                         Exscan{}};
  std::vector<std::string> seeds;
  for (const CollectiveOp& op : ops) {
    proto::ControlRequest request;
    const auto call = EncodeMemberCall(
        {.device = device,
         .request = std::make_shared<const CollectiveRequest>(RequestOf(op)),
         .ended_generation = 4,
         .living_generation = 5});
    Promise(call.ok(), "a seed is a good call");
    *request.mutable_complete_params() = *call;
    seeds.push_back(request.SerializeAsString());
  }
  proto::ControlRequest hello;
  EncodeDevice(device, hello.mutable_hello()->add_devices());
  hello.mutable_hello()->set_num_tasks(3);
  seeds.push_back(hello.SerializeAsString());
  proto::ControlRequest end;
  end.mutable_end_group()->set_generation(3);
  *end.mutable_end_group()->mutable_reason() =
      EncodeError(absl::AbortedError("why"));
  seeds.push_back(end.SerializeAsString());
  proto::ControlRequest cancel;
  cancel.mutable_cancel_execution()->mutable_key()->set_step(-1);
  *cancel.mutable_cancel_execution()->mutable_reason() =
      EncodeError(absl::UnavailableError("gone"));
  seeds.push_back(cancel.SerializeAsString());
  proto::ControlRequest submit;
  submit.mutable_submit_tensors()->set_name_head("layer");
  submit.mutable_submit_tensors()->set_slots("\x13");
  EncodeTensorRequest({.name = "/weights",
                       .shape = *TensorShape::Create({3, 4}),
                       .merge_op = "sum"},
                      submit.mutable_submit_tensors()->add_requests());
  EncodeTensorRequest({.name = "rows",
                       .type = CollectiveType::kAllGather,
                       .dtype = DType::kBool,
                       .shape = TensorShape::Vector(7)},
                      submit.mutable_submit_tensors()->add_requests());
  EncodeTensorRequest({.name = "tokens",
                       .type = CollectiveType::kAllToAll,
                       .shape = TensorShape::Vector(7),
                       .send_rows = {4, 3, 0}},
                      submit.mutable_submit_tensors()->add_requests());
  EncodeTensorRequest({.name = "start",
                       .type = CollectiveType::kBroadcast,
                       .shape = TensorShape::Vector(7),
                       .root = 2},
                      submit.mutable_submit_tensors()->add_requests());
  seeds.push_back(submit.SerializeAsString());
  return seeds;
}

}  // namespace tutti
