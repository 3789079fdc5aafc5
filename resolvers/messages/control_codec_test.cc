#include "resolvers/messages/control_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace control_codec_test {

using absl::StatusCode;
using testing::HasSubstr;

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
      Broadcast{.is_source = true},
      AllToAll{.send_rows = {5, 0, 1, 2}},
      Permute{.permutation = {3, 1, 0, 2}},
      Barrier{},
      ReduceToRoot{.root = 3},
      GatherToRoot{.root = 2},
      ScatterFromRoot{.root = 1}};
  for (const CollectiveOp& op : ops) {
    MemberCall call = Call();
    CollectiveRequest request = *call.request;
    request.op = op;
    request.rank = 2;
    request.merge_op = ReductionKind::kMax;
    request.final_op = FinalOp::DivideByGroupSize();
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
              StatusIs(StatusCode::kInternal, HasSubstr("cannot run here")));
  EXPECT_THAT(decoded->request->final_op.Apply(DType::kFloat32, &value, 1, 1),
              StatusIs(StatusCode::kInternal, HasSubstr("last")));
}

struct BadField {
  const char* error;
  std::function<void(proto::CompleteParams&)> spoil;
};

TEST(ControlCodecTest, EveryFieldIsChecked) {
  using Message = proto::CompleteParams;
  const std::string long_name(1 << 20, 'x');
  const std::vector<BadField> bad_fields = {
      {"device.task is 1", [](Message& m) { m.mutable_device()->set_task(1); }},
      {"device.task is -2147483648",
       [](Message& m) { m.mutable_device()->set_task(kLow); }},
      {"device.task", [](Message& m) { m.mutable_device()->set_task(kHuge); }},
      {"device.task is 0", [](Message& m) { m.clear_device(); }},
      {"device.incarnation is 78",
       [](Message& m) { m.mutable_device()->set_incarnation(78); }},
      {"device.type is empty",
       [](Message& m) { m.mutable_device()->clear_type(); }},
      {"device.type has 1048576 bytes",
       [&](Message& m) { m.mutable_device()->set_type(long_name); }},
      {"device.type is \"a/b\"",
       [](Message& m) { m.mutable_device()->set_type("a/b"); }},
      {"device.type is \"a:b\"",
       [](Message& m) { m.mutable_device()->set_type("a:b"); }},
      {"device.type is \"a\\000b\"",
       [](Message& m) {
         m.mutable_device()->set_type(std::string("a\0b", 3));
       }},
      {"device.index is -1",
       [](Message& m) { m.mutable_device()->set_index(-1); }},
      {"device.index is 2147483647",
       [](Message& m) { m.mutable_device()->set_index(kHuge); }},
      {"link.device_index is -1",
       [](Message& m) {
         m.mutable_device()->mutable_links(0)->set_device_index(-1);
       }},
      {"device.links has 100002 entries",
       [](Message& m) {
         for (int i = 0; i < 100'000; ++i) m.mutable_device()->add_links();
       }},
      {"device.libraries has 17 entries",
       [](Message& m) {
         for (int i = 2; i < 17; ++i) m.mutable_device()->add_libraries("a");
       }},
      {"device.libraries has an empty name",
       [](Message& m) { m.mutable_device()->add_libraries(""); }},
      {"device.libraries has 1048576 bytes",
       [&](Message& m) { m.mutable_device()->add_libraries(long_name); }},
      {"device.libraries is \"a/b\"",
       [](Message& m) { m.mutable_device()->set_libraries(1, "a/b"); }},
      {"device.unit has 1048576 bytes",
       [&](Message& m) { m.mutable_device()->set_unit(long_name); }},
      {"device.unit is \"a\\nb\"",
       [](Message& m) { m.mutable_device()->set_unit("a\nb"); }},
      {"request.group_size is 0", [](Message& m) { m.clear_request(); }},
      {"request.group_size is -1",
       [](Message& m) { m.mutable_request()->set_group_size(-1); }},
      {"request.group_size is 65537",
       [](Message& m) { m.mutable_request()->set_group_size(65537); }},
      {"request.device_type is empty",
       [](Message& m) { m.mutable_request()->clear_device_type(); }},
      {"request.device_type has",
       [&](Message& m) { m.mutable_request()->set_device_type(long_name); }},
      {"rank 4", [](Message& m) { m.mutable_request()->set_rank(4); }},
      {"rank -2", [](Message& m) { m.mutable_request()->set_rank(-2); }},
      {"request.collective is 10",
       [](Message& m) { m.mutable_request()->set_collective(10); }},
      {"request.collective is -1",
       [](Message& m) { m.mutable_request()->set_collective(-1); }},
      {"request.dtype is 99",
       [](Message& m) { m.mutable_request()->set_dtype(99); }},
      {"request.dtype is -1",
       [](Message& m) { m.mutable_request()->set_dtype(-1); }},
      {"negative dimension",
       [](Message& m) { m.mutable_request()->set_shape(0, -1); }},
      {"64 bits",
       [](Message& m) {
         for (int i = 0; i < 3; ++i) {
           m.mutable_request()->add_shape(int64_t{1} << 40);
         }
       }},
      {"request.shape has 301 entries",
       [](Message& m) {
         for (int i = 0; i < 300; ++i) m.mutable_request()->add_shape(1);
       }},
      {"request.send_rows has 70000 entries",
       [](Message& m) {
         for (int i = 0; i < 70'000; ++i) m.mutable_request()->add_send_rows(1);
       }},
      {"request.permutation has 70000 entries",
       [](Message& m) {
         for (int i = 0; i < 70'000; ++i) {
           m.mutable_request()->add_permutation(i);
         }
       }},
      {"is not a permutation",
       [](Message& m) { m.mutable_request()->set_collective(5); }},
      {"root 4",
       [](Message& m) {
         m.mutable_request()->set_collective(7);
         m.mutable_request()->set_root(4);
       }},
      {"request.merge_op",
       [](Message& m) { m.mutable_request()->clear_merge_op(); }},
      {"request.merge_op",
       [](Message& m) { m.mutable_request()->set_merge_op("other"); }},
      {"request.merge_op has",
       [&](Message& m) { m.mutable_request()->set_merge_op(long_name); }},
      {"is the name of a built-in merge op",
       [](Message& m) { m.mutable_request()->set_merge_op_is_custom(true); }},
      {"request.final_op is \"other\"",
       [](Message& m) { m.mutable_request()->set_final_op("other"); }},
      {"is the name of a built-in final op",
       [](Message& m) { m.mutable_request()->set_final_op_is_custom(true); }},
      {"request.final_op is \"a\\nb\"",
       [](Message& m) { m.mutable_request()->set_final_op("a\nb"); }},
      {"request.implementation is \"a/b\"",
       [](Message& m) { m.mutable_request()->set_implementation("a/b"); }},
      {"request.subdiv_offsets has 2000 entries",
       [](Message& m) {
         for (int i = 0; i < 2000; ++i) {
           m.mutable_request()->add_subdiv_offsets(i);
         }
       }},
      {"request.rank_list has 70000 entries",
       [](Message& m) {
         for (int i = 0; i < 70000; ++i) {
           m.mutable_request()->add_rank_list(i);
         }
       }},
      {"rank_list [0,0] names rank 0 twice",
       [](Message& m) {
         m.mutable_request()->add_rank_list(0);
         m.mutable_request()->add_rank_list(0);
       }},
      {"max_subdivs_per_device is -2",
       [](Message& m) { m.mutable_request()->set_max_subdivs_per_device(-2); }},
      {"request.determinism is 3",
       [](Message& m) { m.mutable_request()->set_determinism(3); }},
      {"request.determinism is -1",
       [](Message& m) { m.mutable_request()->set_determinism(-1); }},
      {"request.dependencies has 5000 entries",
       [](Message& m) {
         for (int i = 0; i < 5000; ++i) m.mutable_request()->add_dependencies();
       }},
      {"depends on itself",
       [](Message& m) {
         auto* name = m.mutable_request()->add_dependencies();
         name->set_group_key(-3);
         name->set_instance_key(9);
       }},
      {"ended_generation is 18446744073709551615",
       [](Message& m) { m.set_ended_generation(UINT64_MAX); }},
      {"living_generation is 18446744073709551615",
       [](Message& m) { m.set_living_generation(UINT64_MAX); }},
      {"living_generation is 4, but ended_generation 4",
       [](Message& m) { m.set_living_generation(4); }},
  };
  const auto good = EncodeMemberCall(Call());
  ASSERT_THAT(good, IsOk());
  ASSERT_THAT(Decode(*good), IsOk());
  for (const BadField& field : bad_fields) {
    proto::CompleteParams message = *good;
    field.spoil(message);
    EXPECT_THAT(Decode(message),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(field.error)));
  }
}

TEST(ControlCodecTest, NamesThatCannotTravelAreRefusedWhereTheyAreAsked) {
  MemberCall call = Call();
  CollectiveRequest request = *call.request;
  request.impl_details.implementation = std::string(300, 'x');
  call.request = std::make_shared<const CollectiveRequest>(request);
  EXPECT_THAT(EncodeMemberCall(call), StatusIs(StatusCode::kInvalidArgument,
                                               HasSubstr("has 300 bytes")));
}

TEST(ControlCodecTest, DevicesAreTheOwnersAndDiffer) {
  proto::Hello hello;
  EncodeDevice(Call().device, hello.add_devices());
  EXPECT_THAT(DecodeDevices(Cluster(), kCaller, hello.devices()), IsOk());
  EXPECT_THAT(DecodeDevices(Cluster(), {1, 77}, hello.devices()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("device.task")));
  EXPECT_THAT(DecodeDevices(Cluster(), {9, 77}, hello.devices()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("device.task")));
  EncodeDevice(Call().device, hello.add_devices());
  EXPECT_THAT(DecodeDevices(Cluster(), kCaller, hello.devices()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("twice")));
  for (int i = 0; i < 2000; ++i) hello.add_devices();
  EXPECT_THAT(
      DecodeDevices(Cluster(), kCaller, hello.devices()),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("2002 entries")));
}

TEST(ControlCodecTest, TasksAreOfTheCluster) {
  proto::HelloReply reply;
  reply.add_lost_tasks(2);
  EXPECT_THAT(DecodeTasks(Cluster(), reply.lost_tasks()), IsOk());
  for (int task : {-1, 3, kHuge}) {
    reply.set_lost_tasks(0, task);
    EXPECT_THAT(DecodeTasks(Cluster(), reply.lost_tasks()),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("tasks is")));
  }
  for (int i = 0; i < 10; ++i) reply.add_lost_tasks(0);
  EXPECT_THAT(DecodeTasks(Cluster(), reply.lost_tasks()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("11 entries")));
}

TEST(ControlCodecTest, ClustersHaveTheSameNumberOfTasks) {
  EXPECT_THAT(CheckNumTasks(Cluster(), 1, Cluster().num_tasks()), IsOk());
  EXPECT_THAT(CheckNumTasks(Cluster(), 1, 4),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr(absl::StrCat(
                           Cluster().Label(1), " has a cluster of 4 tasks, ",
                           Cluster().Label(0), " one of 3"))));
  for (int num_tasks : {0, -1, kHuge}) {
    EXPECT_THAT(
        CheckNumTasks(Cluster(), 1, num_tasks),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr("num_tasks is")));
  }
}

// Decoding random bytes gives a status and not a crash.
TEST(ControlCodecTest, SpoiltBytesAreDecodedOrRefused) {
  const std::string good = EncodeMemberCall(Call())->SerializeAsString();
  std::mt19937_64 draw(1);
  int num_parsed = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (uint64_t i = 0; i <= draw() % 4; ++i) {
      bytes[draw() % bytes.size()] = static_cast<char>(draw());
    }
    if (draw() % 4 == 0) bytes.resize(draw() % bytes.size());
    proto::CompleteParams message;
    if (!message.ParseFromString(bytes)) continue;
    ++num_parsed;
    const auto decoded = Decode(message);
    if (decoded.ok()) {
      EXPECT_THAT(Validate(*decoded->request), IsOk());
    } else {
      EXPECT_THAT(decoded, StatusIs(StatusCode::kInvalidArgument, testing::_));
    }
  }
  EXPECT_GT(num_parsed, 1000);
}

}  // namespace control_codec_test
}  // namespace tutti
