// Fuzzes the answers of other tasks, up to the check that accepts or refuses
// them.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/control/wire_codec.h"
#include "named_tensors/coordinator_codec.h"
#include "named_tensors/tensor_preparation.h"
#include "resolvers/messages/control_codec.h"
#include "resolvers/messages/group_codec.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

constexpr int kSize = 4;
constexpr int kRank = 1;  // Rank of the requests.
const ControlCaller kOwner{.task = 1, .incarnation = 101};

ClusterSpec Cluster() { return {.addresses = {"a:1", "b:1", "c:1"}}; }

// Requests that the member may have made.
const std::vector<CollectiveRequest>& Requests() {
  static const auto* const requests = [] {
    auto* const all = new std::vector<CollectiveRequest>;
    for (const CollectiveOp& op : std::vector<CollectiveOp>{
             AllReduce{}, AllGather{.uneven = true}, Broadcast{},
             AllToAll{.send_rows = {1, 2, 0, 1}},
             Permute{.permutation = {3, 1, 0, 2}}, Barrier{},
             GatherToRoot{.root = 2}, ReduceScatter{.uneven = true},
             AllToAll{{1, 2, 0, 1}, {0, 2, 5, 1}}}) {
      CollectiveRequest request;
      request.group_key = 4;
      request.group_size = kSize;
      request.instance_key = 2;
      request.op = op;
      request.shape = TensorShape::Vector(kSize);
      all->push_back(std::move(request));
    }
    return all;
  }();
  return *requests;
}

// Group of devices 0 and 1 of tasks 0 and 1.
std::shared_ptr<CollGroupParams> GoodGroup() {
  auto group = std::make_shared<CollGroupParams>();
  group->key = 4;
  group->generation = 6;
  group->device_type = "CPU";
  group->runtime_details.communicator_key = "key";
  std::vector<int> tasks;
  for (int rank = 0; rank < kSize; ++rank) {
    const int task = rank / 2;
    group->members.push_back({{.name = {"worker", 0, task, "CPU", rank % 2},
                               .incarnation = 100u + task}});
    tasks.push_back(task);
  }
  group->layout =
      std::make_shared<const GroupLayout>(*GroupLayout::Create(tasks));
  return group;
}

bool SameMembers(const CollGroupParams& a, const CollGroupParams& b) {
  for (int rank = 0; rank < kSize; ++rank) {
    if (!(a.members[rank].device == b.members[rank].device)) return false;
  }
  return a.key == b.key && a.generation == b.generation &&
         a.device_type == b.device_type && *a.layout == *b.layout &&
         a.runtime_details.communicator_key ==
             b.runtime_details.communicator_key;
}

void CheckGroup(const CollectiveRequest& request, const proto::Group& message) {
  const auto group = DecodeGroup(Cluster(), request, message);
  if (!group.ok()) {
    return Promise(absl::IsInvalidArgument(group.status()),
                   "a bad group is INVALID_ARGUMENT");
  }
  Promise((*group)->size() == kSize, "a group has the size asked for");
  Promise((*group)->generation > 0, "a group has a generation");
  for (const CollGroupMember& member : (*group)->members) {
    Promise(Cluster().TaskOf(member.device.name).ok(),
            "members are devices of the cluster's tasks");
  }
  const auto again = DecodeGroup(Cluster(), request, EncodeGroup(**group));
  Promise(again.ok() && SameMembers(**again, **group),
          "a group comes out as it went in");
}

void CheckInstance(const CollectiveRequest& request,
                   const proto::Instance& message) {
  static const auto* const group =
      new std::shared_ptr<CollGroupParams>(GoodGroup());
  const auto instance = DecodeInstance(request, **group, kRank, message);
  if (!instance.ok()) {
    return Promise(absl::IsInvalidArgument(instance.status()),
                   "a bad instance is INVALID_ARGUMENT");
  }
  Promise(instance->root >= 0 && instance->root < kSize, "a root is a rank");
  for (const int64_t rows : instance->rows) {
    Promise(rows >= 0, "no rank has less than no rows");
  }
  const auto again =
      DecodeInstance(request, **group, kRank, EncodeInstance(*instance));
  Promise(again.ok() && again->root == instance->root &&
              again->rows == instance->rows &&
              again->shape == instance->shape &&
              again->impl_details == instance->impl_details,
          "an instance comes out as it went in");
}

// Checks the decision against the request that the rank made.
void CheckDecided(const proto::Decision& message) {
  static const auto* const requested = new std::vector<TensorRequest>{
      {.name = "a", .shape = TensorShape::Vector(9), .merge_op = "sum"},
      {.name = "b", .shape = TensorShape::Vector(2), .merge_op = "sum"},
      {.name = "c",
       .type = CollectiveType::kAllGather,
       .shape = *TensorShape::Create({3, 2})},
      {.name = "d",
       .type = CollectiveType::kBroadcast,
       .shape = TensorShape::Vector(9),
       .root = 2},
      {.name = "e",
       .type = CollectiveType::kReduceScatter,
       .shape = *TensorShape::Create({7, 2}),
       .merge_op = "sum"},
      {.name = "f",
       .type = CollectiveType::kAllToAll,
       .shape = *TensorShape::Create({7, 2}),
       .send_rows = {4, 2, 0, 1}}};
  std::vector<const TensorRequest*> requests;
  for (const uint64_t number : message.requests()) {
    if (number >= requested->size()) return;
    requests.push_back(&(*requested)[number]);
  }
  PendingTensorPtr pending;
  if (message.has_stand_in()) {
    auto stand_in = MakeStandIn(message.stand_in(), kRank);
    if (!stand_in.ok()) {
      return Promise(absl::IsInvalidArgument(stand_in.status()),
                     "a bad stand-in is INVALID_ARGUMENT");
    }
    pending = *std::move(stand_in);
    requests = {&pending->request};
  }
  const absl::Status status = CheckDecision(message, requests, kRank, kSize);
  if (!status.ok()) {
    return Promise(absl::IsInvalidArgument(status),
                   "a bad decision is INVALID_ARGUMENT");
  }
  if (message.has_error()) return;
  int64_t num_elements = 0;
  for (const TensorRequest* request : requests) {
    num_elements += request->shape.num_elements();
  }
  Promise(requests.size() == 1 || message.fused_elements() >= num_elements,
          "several fit what they are packed into");
  const TensorRequest& first = *requests.front();
  int64_t num_rows = 0;
  for (const int64_t rows : message.rows()) num_rows += rows;
  Promise(
      message.rows().empty() ||
          SizeInBytes(first.dtype, *first.shape.WithFirstDim(num_rows)).ok(),
      "a result has a size");
  Promise(pending == nullptr || pending->tensor.output != nullptr,
          "a stand-in has a place for its output");
}

template <typename Tasks>
void CheckTasks(const Tasks& message) {
  const auto tasks = DecodeTasks(Cluster(), message);
  if (!tasks.ok()) return;
  for (const int task : *tasks) {
    Promise(task >= 0 && task < Cluster().num_tasks(),
            "tasks are the cluster's");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const CollectiveRequest& request =
      Requests()[input.Choice(static_cast<int>(Requests().size()))];
  proto::ControlReply reply;
  if (!reply.ParseFromString(input.Rest())) return 0;
  const proto::CompleteParamsReply& params = reply.complete_params();
  CheckGroup(request, params.settled().group());
  CheckInstance(request, params.settled().instance());
  Promise(!DecodeError(params.failure().reason()).ok(), "an error is never OK");
  CheckTasks(params.not_leader().lost_tasks());
  CheckTasks(reply.hello().lost_tasks());
  for (const proto::Decision& decision : reply.decisions().decisions()) {
    CheckDecided(decision);
  }
  const auto devices =
      DecodeDevices(Cluster(), kOwner, reply.hello().devices());
  Promise(!devices.ok() || devices->size() <= kMaxDevicesOfTask,
          "devices are bounded");
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  const auto add = [&seeds](size_t request, const proto::ControlReply& reply) {
    seeds.push_back(FuzzOutput()
                        .Choice(static_cast<int>(request))
                        .Rest(reply.SerializeAsString())
                        .bytes());
  };
  for (size_t i = 0; i < Requests().size(); ++i) {
    CollInstanceParams instance;
    instance.shape = Requests()[i].shape;
    instance.impl_details.implementation = "RingReduce";
    instance.impl_details.subdiv_offsets = {0, 2};
    if (i == 1) instance.rows = {4, 4, 0, 9};
    if (i == 3) {
      instance.rows = {1, 1, 1, 1, 1, 2, 0, 1, 0, 0, 3, 1, 1, 1, 1, 1};
    }
    if (i == 6) instance.root = 2;
    if (i == 7) instance.rows = {1, 1, 1, 1};
    if (i == 8) instance.rows = {4, 0, 0, 0, 4, 1, 1, 1};
    proto::ControlReply reply;
    proto::Settled& settled =
        *reply.mutable_complete_params()->mutable_settled();
    *settled.mutable_group() = EncodeGroup(*GoodGroup());
    *settled.mutable_instance() = EncodeInstance(instance);
    Promise(
        DecodeInstance(Requests()[i], *GoodGroup(), kRank, settled.instance())
            .ok(),
        "a seed is a good instance");
    add(i, reply);
  }
  proto::ControlReply failure;
  failure.mutable_complete_params()->mutable_failure()->set_generation(6);
  *failure.mutable_complete_params()->mutable_failure()->mutable_reason() =
      EncodeError(absl::UnavailableError("task 2 was lost"));
  add(0, failure);
  proto::ControlReply not_leader;
  not_leader.mutable_complete_params()->mutable_not_leader()->add_lost_tasks(0);
  add(0, not_leader);
  proto::ControlReply decided;
  proto::DecisionsReply& decisions = *decided.mutable_decisions();
  decisions.set_first_number(1);
  proto::Decision& together = *decisions.add_decisions();
  together.add_requests(0);
  together.add_requests(1);
  together.set_instance(1);
  together.set_fused_elements(12);
  together.add_slots(1);
  together.add_slots(2);
  proto::Decision& gather = *decisions.add_decisions();
  gather.add_requests(2);
  gather.set_instance(2);
  for (const int64_t rows : {1, 3, 0, 9}) gather.add_rows(rows);
  for (const int other : {3, 4}) {
    proto::Decision& decision = *decisions.add_decisions();
    decision.add_requests(static_cast<uint64_t>(other));
    decision.set_instance(other);
    decision.set_fused_elements(other == 3 ? 10 : 4);
  }
  proto::Decision& exchange = *decisions.add_decisions();
  exchange.add_requests(5);
  exchange.set_instance(5);
  for (const int64_t rows : {8, 2, 0, 3}) exchange.add_rows(rows);
  for (const CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kBroadcast,
        CollectiveType::kAllGather}) {
    proto::Decision& joined = *decisions.add_decisions();
    joined.set_instance(1);
    TensorRequest request = {.type = type, .shape = TensorShape::Vector(0)};
    if (Reduces(type)) request.merge_op = "min";
    EncodeTensorRequest(request, joined.mutable_stand_in());
    if (!HasRankBlocks(type)) continue;
    for (const int64_t rows : {1, 0, 0, 9}) joined.add_rows(rows);
  }
  decisions.add_decisions()->set_last_joined(2);
  proto::Decision& refused = *decisions.add_decisions();
  refused.add_requests(0);
  *refused.mutable_error() =
      EncodeError(absl::FailedPreconditionError("mismatched"));
  *decisions.mutable_end() = EncodeError(absl::CancelledError("over"));
  add(0, decided);
  proto::ControlReply hello;
  EncodeDevice({.name = {"worker", 0, kOwner.task, "CPU", 0},
                .incarnation = kOwner.incarnation},
               hello.mutable_hello()->add_devices());
  hello.mutable_hello()->add_lost_tasks(2);
  hello.mutable_hello()->set_num_tasks(3);
  add(0, hello);
  return seeds;
}

}  // namespace tutti
