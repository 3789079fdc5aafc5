// Changes every field of every request between tasks in every way. Each request
// ends in a status, or waits as a valid one would, and the task continues to
// serve.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "framework/control/wire_codec.h"
#include "resolvers/messages/control_codec.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/cluster/spoilt_messages.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace spoilt_requests_test {

using testing::IsEmpty;

constexpr int kNumTasks = 3;

proto::Error SomeError() {
  return EncodeError(absl::AbortedError("a good reason"));
}

proto::Device DeviceMessage(DeviceAttributes device) {
  device.locality.links = {{1, 5}};
  device.libraries = {"Some"};
  device.unit = "0000:1B:00.0";
  proto::Device message;
  EncodeDevice(device, &message);
  message.set_index(1);
  return message;
}

// A call with every field set.
proto::ControlRequest FullCall(const DeviceAttributes& device) {
  proto::ControlRequest message;
  proto::CompleteParams& call = *message.mutable_complete_params();
  *call.mutable_device() = DeviceMessage(device);
  CollectiveRequest requested = AllReduceOf(kGroup, 3, 1);
  requested.merge_op = ReductionKind::kMax;
  requested.dtype = DType::kFloat64;
  requested.rank = 1;
  requested.impl_details = {.implementation = "RingReduce",
                            .determinism = Determinism::kFixedLayout,
                            .subdiv_offsets = {0, 1},
                            .max_subdivs_per_device = 2,
                            .rank_list = {2, 0, 1},
                            .dependencies = {{kGroup, 3}}};
  const auto encoded = EncodeMemberCall(
      {.device = device,
       .request = std::make_shared<const CollectiveRequest>(requested)});
  EXPECT_THAT(encoded, IsOk());
  *call.mutable_request() = encoded->request();
  // Other types use these fields; the parser reads them for every type.
  proto::Request& request = *call.mutable_request();
  request.set_collective(1);
  request.set_uneven(true);
  request.set_is_source(true);
  request.set_root(1);
  for (int i = 0; i < 3; ++i) {
    request.add_rows(i + 1);
    request.add_send_rows(i + 1);
    request.add_permutation(i);
  }
  request.set_merge_op_commutative(true);
  request.set_merge_op_is_custom(true);
  request.set_merge_op("mine");
  request.set_final_op_is_custom(true);
  request.set_final_op("last");
  call.set_ended_generation(1);
  call.set_living_generation(2);
  call.set_step(3);
  call.set_execution(4);
  return message;
}

std::vector<proto::ControlRequest> AllRequests(const DeviceAttributes& device) {
  std::vector<proto::ControlRequest> all(7);
  *all[0].mutable_hello()->add_devices() = DeviceMessage(device);
  all[0].mutable_hello()->set_num_tasks(kNumTasks);
  all[1].mutable_heartbeat()->set_hold_ms(10);
  all[2].mutable_describe_waiting()->set_group_key(kGroup);
  all[2].mutable_describe_waiting()->set_instance_key(1);
  all[3].mutable_step_sequence()->set_graph_key(1);
  all[3].mutable_step_sequence()->set_number(1);
  all[4].mutable_end_group()->set_group_key(kGroup);
  all[4].mutable_end_group()->set_generation(1);
  *all[4].mutable_end_group()->mutable_reason() = SomeError();
  all[4].mutable_end_group()->add_lost_tasks(1);
  proto::CancelExecution& cancel = *all[5].mutable_cancel_execution();
  cancel.mutable_key()->set_generation(1);
  cancel.mutable_key()->set_step(2);
  cancel.mutable_key()->set_group(kGroup);
  cancel.mutable_key()->set_instance(3);
  cancel.mutable_key()->set_execution(4);
  *cancel.mutable_reason() = SomeError();
  all[6].mutable_cleanup_step()->set_step(2);
  all.push_back(FullCall(device));
  all.emplace_back().mutable_goodbye();
  proto::SubmitTensors& submit = *all.emplace_back().mutable_submit_tensors();
  submit.set_number(1);
  submit.set_first_request(1);
  submit.set_name_head("the name of ");
  proto::TensorRequest& tensor = *submit.add_requests();
  tensor.set_name("a tensor");
  tensor.set_collective(1);
  tensor.set_dtype(static_cast<int>(DType::kInt64));
  tensor.add_shape(3);
  tensor.set_merge_op("sum");
  submit.set_slots("\x05");
  all.emplace_back().mutable_await_decisions()->set_after(1);
  proto::EndDecisions& end = *all.emplace_back().mutable_end_decisions();
  *end.mutable_reason() = SomeError();
  end.set_cancels_runs(true);
  return all;
}

class SpoiltRequestsTest : public testing::Test {
 protected:
  void SetUp() override {
    cluster_.StartAll();
    all_ = AllRequests(cluster_.Device(1, 0));
  }

  // Answer of task 0 to task 1; nullopt if there is none within 50 ms.
  std::optional<absl::Status> Answer(const proto::ControlRequest& request) {
    const auto answer = std::make_shared<std::optional<absl::Status>>();
    cluster_.Send({1, cluster_.Device(1, 0).incarnation}, 0, request,
                  [answer](const ControlAnswer& given) {
                    EXPECT_FALSE(answer->has_value()) << "answered twice";
                    *answer = given.status();
                  });
    cluster_.RunFor(absl::Milliseconds(50));
    return *answer;
  }

  void ExpectServes() {
    proto::ControlRequest hello;
    hello.mutable_hello()->set_num_tasks(kNumTasks);
    EncodeDevice(cluster_.Device(1, 0), hello.mutable_hello()->add_devices());
    const auto answer = Answer(hello);
    EXPECT_THAT(answer, testing::Optional(IsOk()));
  }

  SimulatedCluster cluster_{{.num_tasks = kNumTasks, .devices_per_task = 2}};
  std::vector<proto::ControlRequest> all_;
};

TEST_F(SpoiltRequestsTest, NoRequestAndNoFieldIsLeftOut) {
  std::set<int> kinds;
  for (const proto::ControlRequest& request : all_) {
    kinds.insert(request.kind_case());
    EXPECT_THAT(FieldsNotSet(request), IsEmpty()) << request.DebugString();
  }
  EXPECT_EQ(static_cast<int>(kinds.size()),
            proto::ControlRequest::descriptor()->oneof_decl(0)->field_count());
}

TEST_F(SpoiltRequestsTest, EachEndsInAStatusAndTheTaskGoesOn) {
  const std::set<absl::StatusCode> expected = {
      absl::StatusCode::kOk,
      absl::StatusCode::kInvalidArgument,
      absl::StatusCode::kFailedPrecondition,
      absl::StatusCode::kPermissionDenied,
      absl::StatusCode::kResourceExhausted,
      absl::StatusCode::kAborted,
      absl::StatusCode::kAlreadyExists,  // For a tensor's name used twice.
      // Because this test runs no collectives.
      absl::StatusCode::kUnimplemented,
  };
  int num_refused = 0;
  for (const proto::ControlRequest& request : all_) {
    for (const SpoiltMessage& spoilt : SpoilEachField(request)) {
      const auto answer =
          Answer(static_cast<const proto::ControlRequest&>(*spoilt.message));
      const bool may_wait = request.has_complete_params() ||
                            request.has_heartbeat() ||
                            request.has_await_decisions();
      if (!answer.has_value()) {
        EXPECT_TRUE(may_wait && !spoilt.is_absurd) << spoilt.what;
        continue;
      }
      EXPECT_TRUE(expected.contains(answer->code()))
          << spoilt.what << ": " << *answer;
      EXPECT_LT(answer->message().size(), 4096u) << spoilt.what;
      if (spoilt.is_absurd && request.has_complete_params()) {
        EXPECT_THAT(*answer, IsInvalidArgument()) << spoilt.what;
      }
      if (!answer->ok()) ++num_refused;
    }
    ExpectServes();
  }
  EXPECT_GT(num_refused, 100);
}

}  // namespace spoilt_requests_test
}  // namespace tutti
