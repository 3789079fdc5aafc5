#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "resolvers/messages/control_codec.h"
#include "resolvers/messages/group_codec.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace codec_test {

constexpr int kHuge = std::numeric_limits<int>::max();
constexpr int kLow = std::numeric_limits<int>::min();

ClusterSpec Cluster() {
  return {.addresses = {"a:1", "b:1", "c:1"}, .this_task = 0};
}

const ControlCaller kCaller{.task = 2, .incarnation = 77};

MemberCall Call() {
  CollectiveRequest request;
  request.group_key = -3;
  request.group_size = 4;
  request.instance_key = 9;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(8);
  return {.device = {.name = {"worker", 0, 2, "CPU", 1},
                     .locality = {{{0, 5}, {3, -1}}},
                     .incarnation = 77,
                     .libraries = {"Some", "another"},
                     .unit = "0000:1B:00.0"},
          .request = std::make_shared<const CollectiveRequest>(request),
          .ended_generation = 4,
          .living_generation = 5};
}

absl::StatusOr<MemberCall> Decode(const proto::CompleteParams& message) {
  return DecodeMemberCall(Cluster(), kCaller, message);
}

TEST(ControlCodecTest, ACallOfEachTypeSurvivesTheWire) {
  const std::vector<CollectiveOp> ops = {
      AllReduce{},
      AllGather{.uneven = true},
      AllGather{.uneven = true, .rows = {5, 0, 1, 2}},
      ReduceScatter{},
      ReduceScatter{.uneven = true},
      ReduceScatter{.uneven = true, .rows = {5, 0, 1, 2}},
      Broadcast{.is_source = true},
      AllToAll{.send_rows = {5, 0, 1, 2}},
      AllToAll{.send_rows = {5, 0, 1, 2}, .recv_rows = {0, 0, 1, 9}},
      Permute{.permutation = {3, 1, 0, 2}},
      Barrier{},
      ReduceToRoot{.root = 3},
      GatherToRoot{.root = 2},
      GatherToRoot{.root = 2, .uneven = true, .rows = {5, 0, 1, 2}},
      ScatterFromRoot{.root = 1},
      ScatterFromRoot{.root = 1, .uneven = true, .rows = {5, 0, 1, 2}},
      Scan{},
      Exscan{}};
  for (const CollectiveOp& op : ops) {
    MemberCall call = Call();
    CollectiveRequest request = *call.request;
    request.op = op;
    request.rank = 2;
    request.merge_op = ReductionKind::kMax;
    if (!IsScan(TypeOf(op))) request.final_op = FinalOp::DivideByGroupSize();
    request.dtype = DType::kBFloat16;
    request.impl_details = {.implementation = "Some",
                            .determinism = Determinism::kFixedLayout,
                            .subdiv_offsets = {0, -2, 7},
                            .max_subdivs_per_device = -1,
                            .rank_list = {2, 0},
                            .dependencies = {{1, 2}, {-3, 4}}};
    call.request = std::make_shared<const CollectiveRequest>(request);
    const auto message = EncodeMemberCall(call);
    ASSERT_THAT(message, IsOk());
    const auto decoded = Decode(*message);
    ASSERT_THAT(decoded, IsOk()) << Name(TypeOf(op));
    EXPECT_EQ(*decoded->request, request) << Name(TypeOf(op));
    EXPECT_EQ(decoded->device, call.device);
    EXPECT_EQ(decoded->ended_generation, 4u);
    EXPECT_EQ(decoded->living_generation, 5u);
  }
}

TEST(ControlCodecTest, ACallSaysOfWhichExecutionItIsOrThatItWantsTheGroup) {
  MemberCall call = Call();
  EXPECT_EQ(Decode(*EncodeMemberCall(call))->number, std::nullopt);
  call.number = {.step_id = 0, .execution = 0};
  EXPECT_EQ(Decode(*EncodeMemberCall(call))->number, call.number);
  call.number = {.step_id = 5, .execution = UINT64_MAX};
  EXPECT_EQ(Decode(*EncodeMemberCall(call))->number, call.number);
}

TEST(ControlCodecTest, CustomOpsTravelByNameAndDoNotRunElsewhere) {
  MemberCall call = Call();
  CollectiveRequest request = *call.request;
  request.merge_op = *MergeOp::Custom(
      {.name = "mine", .apply = [](auto&&...) { return absl::OkStatus(); }});
  request.final_op = *FinalOp::Custom(
      {.name = "last", .apply = [](auto&&...) { return absl::OkStatus(); }});
  call.request = std::make_shared<const CollectiveRequest>(request);
  const auto decoded = Decode(*EncodeMemberCall(call));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->request->merge_op, request.merge_op);
  EXPECT_FALSE(decoded->request->merge_op.commutative());
  float value = 1;
  EXPECT_THAT(decoded->request->merge_op.Apply(DType::kFloat32, &value, &value,
                                               &value, 1),
              IsInternal("cannot run here"));
  EXPECT_THAT(decoded->request->final_op.Apply(DType::kFloat32, &value, 1, 1),
              IsInternal("last"));
}

// Errors, and what spoils a message for them.
template <typename Message>
using BadFields =
    std::vector<std::pair<std::string, std::function<void(Message&)>>>;

template <typename Message>
void ExpectRefused(const BadFields<Message>& bad_fields,
                   Message* (proto::CompleteParams::*part)()) {
  const auto good = EncodeMemberCall(Call());
  ASSERT_THAT(good, IsOk());
  ASSERT_THAT(Decode(*good), IsOk());
  for (const auto& [error, spoil] : bad_fields) {
    proto::CompleteParams message = *good;
    spoil(*(message.*part)());
    EXPECT_THAT(Decode(message), IsInvalidArgument(error));
  }
}

const std::string kLongName(1 << 20, 'x');

TEST(ControlCodecTest, EveryFieldOfADeviceIsChecked) {
  ExpectRefused<proto::Device>(
      {{"device.task is 1", [](auto& d) { d.set_task(1); }},
       {"device.task is -2147483648", [](auto& d) { d.set_task(kLow); }},
       {"device.task", [](auto& d) { d.set_task(kHuge); }},
       {"device.incarnation is 78", [](auto& d) { d.set_incarnation(78); }},
       {"device.type is empty", [](auto& d) { d.clear_type(); }},
       {"device.type has 1048576 bytes",
        [](auto& d) { d.set_type(kLongName); }},
       {"device.type is \"a/b\"", [](auto& d) { d.set_type("a/b"); }},
       {"device.type is \"a:b\"", [](auto& d) { d.set_type("a:b"); }},
       {"device.type is \"a\\000b\"",
        [](auto& d) { d.set_type(std::string("a\0b", 3)); }},
       {"device.index is -1", [](auto& d) { d.set_index(-1); }},
       {"device.index is 2147483647", [](auto& d) { d.set_index(kHuge); }},
       {"link.device_index is -1",
        [](auto& d) { d.mutable_links(0)->set_device_index(-1); }},
       {"device.links has 100002 entries",
        [](auto& d) {
          for (int i = 0; i < 100'000; ++i) d.add_links();
        }},
       {"device.libraries has 17 entries",
        [](auto& d) {
          for (int i = 2; i < 17; ++i) d.add_libraries("a");
        }},
       {"device.libraries has an empty name",
        [](auto& d) { d.add_libraries(""); }},
       {"device.libraries has 1048576 bytes",
        [](auto& d) { d.add_libraries(kLongName); }},
       {"device.libraries is \"a/b\"",
        [](auto& d) { d.set_libraries(1, "a/b"); }},
       {"device.unit has 1048576 bytes",
        [](auto& d) { d.set_unit(kLongName); }},
       {"device.unit is \"a\\nb\"", [](auto& d) { d.set_unit("a\nb"); }}},
      &proto::CompleteParams::mutable_device);
}

TEST(ControlCodecTest, EveryFieldOfARequestIsChecked) {
  ExpectRefused<proto::Request>(
      {{"request.group_size is -1", [](auto& r) { r.set_group_size(-1); }},
       {"request.group_size is 65537",
        [](auto& r) { r.set_group_size(65537); }},
       {"request.device_type is empty", [](auto& r) { r.clear_device_type(); }},
       {"request.device_type has",
        [](auto& r) { r.set_device_type(kLongName); }},
       {"rank 4", [](auto& r) { r.set_rank(4); }},
       {"rank -2", [](auto& r) { r.set_rank(-2); }},
       {"request.collective is 12", [](auto& r) { r.set_collective(12); }},
       {"request.collective is -1", [](auto& r) { r.set_collective(-1); }},
       {"request.dtype is 99", [](auto& r) { r.set_dtype(99); }},
       {"request.dtype is -1", [](auto& r) { r.set_dtype(-1); }},
       {"negative dimension", [](auto& r) { r.set_shape(0, -1); }},
       {"64 bits",
        [](auto& r) {
          for (int i = 0; i < 3; ++i) {
            r.add_shape(int64_t{1} << 40);
          }
        }},
       {"request.shape has 301 entries",
        [](auto& r) {
          for (int i = 0; i < 300; ++i) r.add_shape(1);
        }},
       {"request.recv_rows has 70000 entries",
        [](auto& r) {
          for (int i = 0; i < 70'000; ++i) r.add_recv_rows(1);
        }},
       {"request.send_rows has 70000 entries",
        [](auto& r) {
          for (int i = 0; i < 70'000; ++i) r.add_send_rows(1);
        }},
       {"request.permutation has 70000 entries",
        [](auto& r) {
          for (int i = 0; i < 70'000; ++i) {
            r.add_permutation(i);
          }
        }},
       {"is not a permutation", [](auto& r) { r.set_collective(5); }},
       {"root 4",
        [](auto& r) {
          r.set_collective(7);
          r.set_root(4);
        }},
       {"request.merge_op", [](auto& r) { r.clear_merge_op(); }},
       {"request.merge_op", [](auto& r) { r.set_merge_op("other"); }},
       {"request.merge_op has", [](auto& r) { r.set_merge_op(kLongName); }},
       {"is the name of a built-in merge op",
        [](auto& r) { r.set_merge_op_is_custom(true); }},
       {"request.final_op is \"other\"",
        [](auto& r) { r.set_final_op("other"); }},
       {"is the name of a built-in final op",
        [](auto& r) { r.set_final_op_is_custom(true); }},
       {"request.final_op is \"a\\nb\"",
        [](auto& r) { r.set_final_op("a\nb"); }},
       {"request.implementation is \"a/b\"",
        [](auto& r) { r.set_implementation("a/b"); }},
       {"request.subdiv_offsets has 2000 entries",
        [](auto& r) {
          for (int i = 0; i < 2000; ++i) {
            r.add_subdiv_offsets(i);
          }
        }},
       {"request.rank_list has 70000 entries",
        [](auto& r) {
          for (int i = 0; i < 70000; ++i) {
            r.add_rank_list(i);
          }
        }},
       {"rank_list [0,0] names rank 0 twice",
        [](auto& r) {
          r.add_rank_list(0);
          r.add_rank_list(0);
        }},
       {"max_subdivs_per_device is -2",
        [](auto& r) { r.set_max_subdivs_per_device(-2); }},
       {"request.determinism is 3", [](auto& r) { r.set_determinism(3); }},
       {"request.determinism is -1", [](auto& r) { r.set_determinism(-1); }},
       {"request.dependencies has 5000 entries",
        [](auto& r) {
          for (int i = 0; i < 5000; ++i) r.add_dependencies();
        }},
       {"depends on itself",
        [](auto& r) {
          auto* name = r.add_dependencies();
          name->set_group_key(-3);
          name->set_instance_key(9);
        }}},
      &proto::CompleteParams::mutable_request);
}

TEST(ControlCodecTest, EveryFieldOfACallIsChecked) {
  const BadFields<proto::CompleteParams> bad_fields = {
      {"device.task is 0", [](auto& m) { m.clear_device(); }},
      {"request.group_size is 0", [](auto& m) { m.clear_request(); }},
      {"ended_generation is 18446744073709551615",
       [](auto& m) { m.set_ended_generation(UINT64_MAX); }},
      {"living_generation is 18446744073709551615",
       [](auto& m) { m.set_living_generation(UINT64_MAX); }},
      {"living_generation is 4, but ended_generation 4",
       [](auto& m) { m.set_living_generation(4); }}};
  for (const auto& [error, spoil] : bad_fields) {
    proto::CompleteParams message = *EncodeMemberCall(Call());
    spoil(message);
    EXPECT_THAT(Decode(message), IsInvalidArgument(error));
  }
}

TEST(ControlCodecTest, NamesThatCannotTravelAreRefusedWhereTheyAreAsked) {
  MemberCall call = Call();
  CollectiveRequest request = *call.request;
  request.impl_details.implementation = std::string(300, 'x');
  call.request = std::make_shared<const CollectiveRequest>(request);
  EXPECT_THAT(EncodeMemberCall(call), IsInvalidArgument("has 300 bytes"));
}

TEST(ControlCodecTest, DevicesAreTheOwnersAndDiffer) {
  proto::Hello hello;
  EncodeDevice(Call().device, hello.add_devices());
  EXPECT_THAT(DecodeDevices(Cluster(), kCaller, hello.devices()), IsOk());
  EXPECT_THAT(DecodeDevices(Cluster(), {1, 77}, hello.devices()),
              IsInvalidArgument("device.task"));
  EXPECT_THAT(DecodeDevices(Cluster(), {9, 77}, hello.devices()),
              IsInvalidArgument("device.task"));
  EncodeDevice(Call().device, hello.add_devices());
  EXPECT_THAT(DecodeDevices(Cluster(), kCaller, hello.devices()),
              IsInvalidArgument("twice"));
  for (int i = 0; i < 2000; ++i) hello.add_devices();
  EXPECT_THAT(DecodeDevices(Cluster(), kCaller, hello.devices()),
              IsInvalidArgument("2002 entries"));
}

TEST(ControlCodecTest, TasksAreOfTheCluster) {
  proto::HelloReply reply;
  reply.add_lost_tasks(2);
  EXPECT_THAT(DecodeTasks(Cluster(), reply.lost_tasks()), IsOk());
  for (int task : {-1, 3, kHuge}) {
    reply.set_lost_tasks(0, task);
    EXPECT_THAT(DecodeTasks(Cluster(), reply.lost_tasks()),
                IsInvalidArgument("tasks is"));
  }
  for (int i = 0; i < 10; ++i) reply.add_lost_tasks(0);
  EXPECT_THAT(DecodeTasks(Cluster(), reply.lost_tasks()),
              IsInvalidArgument("11 entries"));
}

TEST(ControlCodecTest, ClustersHaveTheSameNumberOfTasks) {
  EXPECT_THAT(CheckNumTasks(Cluster(), 1, Cluster().num_tasks()), IsOk());
  EXPECT_THAT(CheckNumTasks(Cluster(), 1, 4),
              IsFailedPrecondition(absl::StrCat(
                  Cluster().Label(1), " has a cluster of 4 tasks, ",
                  Cluster().Label(0), " one of 3")));
  for (int num_tasks : {0, -1, kHuge}) {
    EXPECT_THAT(CheckNumTasks(Cluster(), 1, num_tasks),
                IsInvalidArgument("num_tasks is"));
  }
}

ClusterSpec ClusterOf(int num_tasks) {
  ClusterSpec cluster;
  for (int task = 0; task < num_tasks; ++task) {
    cluster.addresses.push_back(absl::StrCat("host", task, ":1"));
  }
  return cluster;
}

// Returns a group with members (task, device) in rank order.
CollGroupParams GroupOf(const std::vector<std::pair<int, int>>& members) {
  CollGroupParams group;
  group.key = 4;
  group.generation = 6;
  group.device_type = "CPU";
  group.runtime_details.communicator_key = std::string("\0key\xff", 5);
  std::vector<int> tasks;
  for (const auto& [task, index] : members) {
    group.members.push_back({{.name = {"worker", 0, task, "CPU", index},
                              .incarnation = 100u + task}});
    tasks.push_back(task);
  }
  group.layout =
      std::make_shared<const GroupLayout>(*GroupLayout::Create(tasks));
  return group;
}

CollectiveRequest RequestOf(int size) {
  CollectiveRequest request;
  request.group_key = 4;
  request.group_size = size;
  request.instance_key = 2;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(size);
  return request;
}

TEST(GroupCodecTest, AGroupSurvivesTheWireWhateverItsOrder) {
  std::mt19937_64 draw(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<int, int>> members;
    for (int task = 0; task < 5; ++task) {
      for (int i = 0; i <= static_cast<int>(draw() % 4); ++i) {
        members.emplace_back(task, i);
      }
    }
    if (round % 2 == 0) std::shuffle(members.begin(), members.end(), draw);
    const CollGroupParams group = GroupOf(members);
    const auto decoded =
        DecodeGroup(ClusterOf(5), RequestOf(group.size()), EncodeGroup(group));
    ASSERT_THAT(decoded, IsOk());
    ASSERT_EQ((*decoded)->size(), group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      EXPECT_EQ((*decoded)->members[rank].device, group.members[rank].device);
    }
    EXPECT_EQ(*(*decoded)->layout, *group.layout);
    EXPECT_EQ((*decoded)->generation, 6u);
    EXPECT_EQ((*decoded)->runtime_details.communicator_key,
              group.runtime_details.communicator_key);
  }
}

TEST(GroupCodecTest, ARegularGroupIsOneRange) {
  std::vector<std::pair<int, int>> members;
  for (int task = 0; task < 1024; ++task) {
    for (int i = 0; i < 8; ++i) members.emplace_back(task, i);
  }
  const proto::Group message = EncodeGroup(GroupOf(members));
  EXPECT_EQ(message.members_size(), 1);
  EXPECT_LT(message.ByteSizeLong(), 1024u * 8 + 100);
}

TEST(GroupCodecTest, EveryFieldOfAGroupIsChecked) {
  const proto::Group good =
      EncodeGroup(GroupOf({{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  using Message = proto::Group;
  const auto range = [](Message& m) { return m.mutable_members(0); };
  const std::vector<std::pair<const char*, std::function<void(Message&)>>>
      bad_fields = {
          {"group.group_key is 5", [](Message& m) { m.set_group_key(5); }},
          {"group.generation is 0", [](Message& m) { m.clear_generation(); }},
          {"group.generation is 18446744073709551615",
           [](Message& m) { m.set_generation(UINT64_MAX); }},
          {"group.device_type", [](Message& m) { m.set_device_type("GPU"); }},
          {"only 0 members", [](Message& m) { m.clear_members(); }},
          {"2 tasks from -1",
           [&](Message& m) { range(m)->set_first_task(-1); }},
          {"2 tasks from 2147483647",
           [&](Message& m) { range(m)->set_first_task(kHuge); }},
          {"2 tasks from 2", [&](Message& m) { range(m)->set_first_task(2); }},
          {"0 tasks from", [&](Message& m) { range(m)->set_num_tasks(0); }},
          {"-1 tasks from", [&](Message& m) { range(m)->set_num_tasks(-1); }},
          {"2147483647 tasks from",
           [&](Message& m) { range(m)->set_num_tasks(kHuge); }},
          {"incarnations has 2 entries for 1 tasks",
           [&](Message& m) { range(m)->set_num_tasks(1); }},
          {"incarnations has 0 entries",
           [&](Message& m) { range(m)->clear_incarnations(); }},
          {"device_indices is empty",
           [&](Message& m) { range(m)->clear_device_indices(); }},
          {"device_indices has -1",
           [&](Message& m) { range(m)->set_device_indices(0, -1); }},
          {"device_indices has 2147483647",
           [&](Message& m) { range(m)->set_device_indices(0, kHuge); }},
          {"twice", [&](Message& m) { range(m)->set_device_indices(0, 1); }},
          {"more than 4 members",
           [&](Message& m) {
             for (int i = 0; i < 60'000; ++i) range(m)->add_device_indices(i);
           }},
          {"more than 4 members",
           [&](Message& m) { *m.add_members() = m.members(0); }},
      };
  ASSERT_THAT(DecodeGroup(ClusterOf(3), RequestOf(4), good), IsOk());
  for (const auto& [error, spoil] : bad_fields) {
    proto::Group message = good;
    spoil(message);
    EXPECT_THAT(DecodeGroup(ClusterOf(3), RequestOf(4), message),
                IsInvalidArgument(error));
  }
}

proto::Instance InstanceOf(const CollectiveRequest& request) {
  proto::Instance message;
  message.set_implementation("RingReduce");
  message.mutable_shape()->Add(request.shape.dims().begin(),
                               request.shape.dims().end());
  return message;
}

TEST(GroupCodecTest, EveryFieldOfAnInstanceIsChecked) {
  const CollGroupParams group = GroupOf({{0, 0}, {1, 0}});
  const CollectiveRequest request = RequestOf(2);
  using Message = proto::Instance;
  const std::vector<std::pair<const char*, std::function<void(Message&)>>>
      bad_fields = {
          {"instance.root is -1", [](Message& m) { m.set_root(-1); }},
          {"instance.root is 2", [](Message& m) { m.set_root(2); }},
          {"instance.root is 1", [](Message& m) { m.set_root(1); }},
          {"instance.shape is []", [](Message& m) { m.clear_shape(); }},
          {"negative dimension", [](Message& m) { m.set_shape(0, -1); }},
          {"instance.shape is [9]", [](Message& m) { m.set_shape(0, 9); }},
          {"instance.shape has 301",
           [](Message& m) {
             for (int i = 0; i < 300; ++i) m.add_shape(1);
           }},
          {"instance.rows has 1 entries; wanted 0",
           [](Message& m) { m.add_rows(1); }},
          {"instance.implementation is empty",
           [](Message& m) { m.clear_implementation(); }},
          {"instance.implementation has 1048576 bytes",
           [](Message& m) { m.set_implementation(std::string(1 << 20, 'x')); }},
          {"instance.implementation is \"a/b\"",
           [](Message& m) { m.set_implementation("a/b"); }},
          {"instance.subdiv_offsets has 2000 entries",
           [](Message& m) {
             for (int i = 0; i < 2000; ++i) m.add_subdiv_offsets(i);
           }},
      };
  ASSERT_THAT(DecodeInstance(request, group, 1, InstanceOf(request)), IsOk());
  for (const auto& [error, spoil] : bad_fields) {
    proto::Instance message = InstanceOf(request);
    spoil(message);
    EXPECT_THAT(DecodeInstance(request, group, 1, message),
                IsInvalidArgument(error));
  }
}

TEST(GroupCodecTest, RowsAgreeWithTheMembersOwnAndAddUp) {
  const CollGroupParams group = GroupOf({{0, 0}, {1, 0}});
  CollectiveRequest request = RequestOf(2);
  request.op = AllToAll{.send_rows = {1, 1}};
  const auto decode = [&](const std::vector<int64_t>& rows, int rank) {
    proto::Instance message = InstanceOf(request);
    message.mutable_rows()->Add(rows.begin(), rows.end());
    return DecodeInstance(request, group, rank, message);
  };
  EXPECT_THAT(decode({1, 1, 5, 0}, 0), IsOk());
  for (const auto& rows : std::vector<std::vector<int64_t>>{
           {1, 1, 5}, {1, 2, 5, 0}, {1, 1, -5, 0}, {1, 1, INT64_MAX, 1}}) {
    EXPECT_THAT(decode(rows, 0), IsInvalidArgument("instance.rows"));
  }
  request.op = AllGather{.uneven = true};
  EXPECT_THAT(decode({9, 2}, 1), IsOk());
  EXPECT_THAT(decode({2, 9}, 1), IsInvalidArgument("rank 1 asks for"));
  EXPECT_THAT(decode({INT64_MAX, 2}, 1), IsInvalidArgument("range"));
  // Each member knows balanced rows.
  request.op = ReduceScatter{.uneven = true};
  EXPECT_THAT(decode({1, 1}, 1), IsOk());
  EXPECT_THAT(decode({2, 0}, 1), IsInvalidArgument("rank 1 asks for"));
  // Rows of rank 0: what it sends, and what it receives.
  request.op = AllToAll{.send_rows = {1, 1}, .recv_rows = {1, 1}};
  EXPECT_THAT(decode({9, 1, 9, 0}, 1), IsOk());
  EXPECT_THAT(decode({9, 1}, 1), IsInvalidArgument("wanted 4"));
  EXPECT_THAT(decode({9, 1, INT64_MAX, 1}, 1), IsInvalidArgument("range"));
  // Rows that all members know may be of another execution.
  request.op = AllGather{.uneven = true, .rows = {9, 2}};
  EXPECT_THAT(decode({2, 9}, 1), IsOk());
  EXPECT_THAT(decode({INT64_MAX, 2}, 1), IsInvalidArgument("range"));
}

TEST(GroupCodecTest, OnlyTheSourceOfABroadcastIsItsRoot) {
  const CollGroupParams group = GroupOf({{0, 0}, {1, 0}});
  CollectiveRequest request = RequestOf(2);
  proto::Instance message = InstanceOf(request);
  message.set_root(1);
  request.op = Broadcast{.is_source = true};
  EXPECT_THAT(DecodeInstance(request, group, 1, message), IsOk());
  EXPECT_THAT(DecodeInstance(request, group, 0, message),
              IsInvalidArgument("is the source"));
}

}  // namespace codec_test
}  // namespace tutti
