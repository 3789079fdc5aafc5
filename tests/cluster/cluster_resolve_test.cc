#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/wire_codec.h"
#include "resolvers/membership/cluster_control.h"
#include "resolvers/messages/control_codec.h"
#include "tests/cluster/cluster_resolve_testing.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/cluster/spoilt_messages.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {
namespace cluster_resolve_test {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ClusterResolveTest, AllMembersGetTheSameParams) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Begin({.num_tasks = 3, .devices_per_task = 2, .seed = seed});
    const auto calls = Settle(Request());
    const CollectiveParams& first = calls[0]->params();
    for (size_t i = 0; i < calls.size(); ++i) {
      const CollectiveParams& params = calls[i]->params();
      EXPECT_EQ(params.default_rank, static_cast<int>(i));
      EXPECT_EQ(params.group->generation, first.group->generation);
      EXPECT_EQ(*params.group->layout, *first.group->layout);
      EXPECT_EQ(params.instance->impl_details, first.instance->impl_details);
      EXPECT_EQ(params.instance->shape, first.instance->shape);
      EXPECT_EQ(params.task->num_local, 2);
      for (int rank = 0; rank < size(); ++rank) {
        EXPECT_EQ(params.group->members[rank].device,
                  cluster_->Device(rank / 2, rank % 2));
        EXPECT_EQ(params.task->is_local[rank],
                  rank / 2 == static_cast<int>(i) / 2);
      }
      EXPECT_NE(params.instance->impl_details.implementation, "LocalReduce");
    }
    // Members of a task share objects, as members of a process do.
    EXPECT_EQ(calls[2]->params().group, calls[3]->params().group);
    EXPECT_EQ(calls[2]->params().instance, calls[3]->params().instance);
    ExpectNothingWaits();
  }
}

TEST_F(ClusterResolveTest, AGroupWithinOneOtherTaskIsOneProcess) {
  Begin({.num_tasks = 2, .devices_per_task = 2});
  const auto request = AllReduceOf(kGroup, 2, 1);
  const std::vector<CallPtr> calls = {cluster_->Request(1, 0, request),
                                      cluster_->Request(1, 1, request)};
  cluster_->RunFor(absl::Seconds(1));
  ExpectEnds(calls, IsOk());
  EXPECT_EQ(calls[0]->params().instance->impl_details.implementation,
            "LocalReduce");
  EXPECT_EQ(calls[0]->params().task->num_local, 2);
  EXPECT_THAT(cluster_->directory(0).Living(), IsEmpty());
}

// The cheapest algorithm, for devices of separate units that have "Lib". Its
// leader makes communicator keys.
class LibReducer : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveGroupRuntimeDetails(
      CollGroupParams* group) override {
    group->runtime_details.communicator_key = "made";
    return absl::OkStatus();
  }
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback) override {}
};
REGISTER_COLLECTIVE(
    LibReduce, Implemented<LibReducer>(
                   {.collectives = {CollectiveType::kAllReduce},
                    .device_needs = {.library = "Lib", .own_units = true},
                    .needs_communicator_key = true,
                    .cost_seconds = [](const CostQuery&) { return 0.0; }}));

// Groups without the leader, task 0.
class ClusterDevicesTest : public ClusterResolveTest {
 protected:
  void Begin(std::function<void(DeviceAttributes&)> describe) {
    ClusterResolveTest::Begin(
        {.num_tasks = 3, .describe_device = std::move(describe)});
  }

  std::vector<CallPtr> Request(const std::string& implementation) {
    CollectiveRequest request = AllReduceOf(++group_, 2, 1);
    request.impl_details.implementation = implementation;
    const std::vector<CallPtr> calls = {cluster_->Request(1, 0, request),
                                        cluster_->Request(2, 0, request)};
    cluster_->RunFor(absl::Seconds(1));
    return calls;
  }

  void ExpectChosen(bool is_lib_reduce) {
    const auto calls = Request("");
    ExpectEnds(calls, IsOk());
    for (const CallPtr& call : calls) {
      const CollectiveParams& params = call->params();
      EXPECT_EQ(params.instance->impl_details.implementation == "LibReduce",
                is_lib_reduce);
      EXPECT_EQ(params.group->runtime_details.communicator_key,
                is_lib_reduce ? "made" : "");
    }
  }

  void ExpectRefused(const std::string& why_not) {
    ExpectEnds(Request("LibReduce"),
               IsInvalidArgument(
                   absl::StrCat("LibReduce ", why_not, "; these can serve: ")));
  }

  GroupKey group_ = kGroup;
};

TEST_F(ClusterDevicesTest, WhatTheyHaveIsSeenByALeaderElsewhere) {
  Begin([](DeviceAttributes& device) {
    if (device.name.task > 0) device.libraries = {"Lib"};
    device.unit = absl::StrCat("unit ", device.name.task);
  });
  ExpectChosen(/*is_lib_reduce=*/true);
  ExpectEnds(Request("LibReduce"), IsOk());
}

TEST_F(ClusterDevicesTest, WhatOneLacksRulesOutAndIsNamedToAll) {
  Begin([](DeviceAttributes& device) {
    if (device.name.task < 2) device.libraries = {"Lib"};
  });
  ExpectChosen(/*is_lib_reduce=*/false);
  ExpectRefused(
      "needs Lib, which rank 1 (/job:worker/replica:0/task:2/device:CPU:0) "
      "does not have");
}

TEST_F(ClusterDevicesTest, AUnitThatIsSharedRulesOutAndIsNamedToAll) {
  Begin([](DeviceAttributes& device) {
    device.libraries = {"Lib"};
    device.unit = "one for all";
  });
  ExpectChosen(/*is_lib_reduce=*/false);
  ExpectRefused(
      "needs each member on a CPU of its own, but ranks 0 and 1 "
      "(/job:worker/replica:0/task:1/device:CPU:0 and "
      "/job:worker/replica:0/task:2/device:CPU:0) are on one");
}

TEST_F(ClusterResolveTest, RanksAskedForSurviveTheWire) {
  Begin({.num_tasks = 3});
  const auto calls = RequestEach([](int task, CollectiveRequest& request) {
    request.rank = (task + 1) % 3;
  });
  ExpectEnds(calls, IsOk());
  for (int task = 0; task < 3; ++task) {
    EXPECT_EQ(calls[task]->params().default_rank, (task + 1) % 3);
    EXPECT_EQ(calls[0]->params().group->members[(task + 1) % 3].device,
              cluster_->Device(task, 0));
  }
}

TEST_F(ClusterResolveTest, UnevenRowsReachAllMembers) {
  Begin({.num_tasks = 3});
  const auto calls = RequestEach([](int task, CollectiveRequest& request) {
    request.op = AllGather{.uneven = true};
    request.shape = *TensorShape::Create({task + 1, 5});
  });
  ExpectEnds(calls, IsOk());
  for (int task = 0; task < 3; ++task) {
    EXPECT_EQ(calls[task]->params().instance->rows,
              (std::vector<int64_t>{1, 2, 3}));
    EXPECT_EQ(calls[task]->params().output_shape.dim(0), 6);
    EXPECT_EQ(calls[task]->params().input_shape.dim(0), task + 1);
  }
}

TEST_F(ClusterResolveTest, EachTaskUsesItsOwnFunctionOfACustomOp) {
  Begin({.num_tasks = 3});
  const auto calls = RequestEach([](int task, CollectiveRequest& request) {
    request.merge_op = *MergeOp::Custom(
        {.name = "mine", .commutative = true, .apply = [task](auto&&...) {
           return absl::DataLossError(absl::StrCat("of task ", task));
         }});
    request.final_op =
        *FinalOp::Custom({.name = "mine too",
                          .apply = [](auto&&...) { return absl::OkStatus(); }});
    // Gives the leader's own member a rank other than 0.
    request.rank = (task + 1) % 3;
  });
  ExpectEnds(calls, IsOk());
  for (int task = 0; task < 3; ++task) {
    float value = 0;
    EXPECT_THAT(calls[task]->params().instance->merge_op.Apply(
                    DType::kFloat32, &value, &value, &value, 1),
                IsDataLoss(absl::StrCat("of task ", task)));
  }
}

TEST_F(ClusterResolveTest, WhatMembersDifferInIsReportedOnAllOfThem) {
  Begin({.num_tasks = 3});
  const auto calls = RequestEach([](int task, CollectiveRequest& request) {
    if (task == 2) request.dtype = DType::kInt32;
  });
  ExpectEnds(calls,
             IsInvalidArgument("ranks 0, 1 have float32", "rank 2 has int32"));
  Settle(Request());
}

TEST_F(ClusterResolveTest, ACancelledMemberLeavesNothingBehind) {
  for (int task : {0, 2}) {
    for (const auto wait : {absl::ZeroDuration(), absl::Seconds(1)}) {
      Begin({.num_tasks = 3});
      const auto call = cluster_->Request(task, 0, AllReduceOf(kGroup, 2, 1));
      cluster_->RunFor(wait);
      EXPECT_TRUE(call->waits());
      call->token->Cancel(absl::CancelledError("no more"));
      EXPECT_THAT(call->status(), IsCancelled("no more"));
      cluster_->RunFor(absl::Seconds(1));
      ExpectNothingWaits();
      EXPECT_EQ(led(0).num_groups(), 0u);
      // The leader has forgotten the requested size, too.
      Settle(Request());
    }
  }
}

TEST_F(ClusterResolveTest, OneOfTwoCallsThatIsCancelledLeavesTheOther) {
  Begin({.num_tasks = 2});
  const auto first = cluster_->Request(1, 0, Request());
  const CallPtr second = RequestAndRun(1, Request());
  first->token->Cancel(absl::CancelledError("no more"));
  const CallPtr other = RequestAndRun(0, Request());
  EXPECT_THAT(first->status(), IsCancelled("no more"));
  ExpectEnds({second, other}, IsOk());
}

TEST_F(ClusterResolveTest, TheSteadyStateSendsNothing) {
  Begin({.num_tasks = 3});
  Settle(Request());
  const int64_t before = cluster_->traffic().messages;
  for (int step = 0; step < 100; ++step) {
    const auto calls = RequestAll(Request());
    ExpectEnds(calls, IsOk());  // Without waiting.
  }
  cluster_->RunFor(absl::Seconds(10));
  EXPECT_EQ(cluster_->traffic().messages, before);
}

TEST_F(ClusterResolveTest, ALaterInstanceDoesNotSendTheGroupAgain) {
  Begin({.num_tasks = 64});
  RequestAll(Request(1));
  cluster_->RunFor(absl::Seconds(1));
  const int64_t first = cluster_->traffic_of(63).bytes;
  RequestAll(Request(2));
  cluster_->RunFor(absl::Seconds(1));
  const int64_t second = cluster_->traffic_of(63).bytes;
  RequestAll(Request(3));
  cluster_->RunFor(absl::Seconds(1));
  const int64_t third = cluster_->traffic_of(63).bytes;
  EXPECT_EQ(third - second, second - first);
  EXPECT_LT(third - second, 200);
}

TEST_F(ClusterResolveTest, AnotherRequestForASettledInstanceIsRefused) {
  Begin({.num_tasks = 2});
  ASSERT_NO_FATAL_FAILURE(RequestAll(Request()));
  cluster_->RunFor(absl::Seconds(1));
  CollectiveRequest other = Request();
  other.dtype = DType::kInt64;
  EXPECT_THAT(cluster_->Request(1, 0, other)->status(),
              IsInvalidArgument("int64"));
}

TEST_F(ClusterResolveTest, ALateJoinerCompletesTheGroup) {
  Begin({.num_tasks = 3});
  const std::vector<CallPtr> early = {cluster_->Request(0, 0, Request()),
                                      cluster_->Request(1, 0, Request())};
  cluster_->RunFor(absl::Seconds(100));
  EXPECT_TRUE(early[0]->waits());
  const CallPtr late = RequestAndRun(2, Request());
  ExpectEnds({early[0], early[1], late}, IsOk());
}

TEST_F(ClusterResolveTest, ADeadlineCanSayWhoHasNotArrived) {
  Begin({.num_tasks = 3});
  const auto call = cluster_->Request(1, 0, Request());
  cluster_->RunFor(absl::Milliseconds(50));
  EXPECT_THAT(call->describe(),
              HasSubstr("asked the leader, task 0 (host0:7000), 50 ms ago, "
                        "which has not answered"));
  cluster_->RunFor(absl::Milliseconds(100));
  EXPECT_THAT(call->describe(),
              AllOf(HasSubstr("group phase: 1 of 3 members had joined"),
                    HasSubstr("task:1/device:CPU:0")));
  const auto leader_call = cluster_->Request(0, 0, Request());
  cluster_->RunFor(absl::Milliseconds(1100));
  EXPECT_THAT(call->describe(), HasSubstr("2 of 3 members"));
  EXPECT_THAT(leader_call->describe(), HasSubstr("2 of 3 members"));
  cluster_->Request(2, 0, Request());
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(call->describe(), "");
  const auto next = cluster_->Request(1, 0, Request(2));
  cluster_->RunFor(absl::Milliseconds(200));
  EXPECT_THAT(next->describe(),
              AllOf(HasSubstr("instance phase: rank 0"),
                    HasSubstr("task:2/device:CPU:0) had not arrived")));
}

TEST_F(ClusterResolveTest, ASilentLeaderIsNamed) {
  Begin({.num_tasks = 2});
  const auto call = cluster_->Request(1, 0, Request());
  cluster_->RunFor(absl::Milliseconds(200));
  cluster_->Stall(0, absl::Seconds(4));
  cluster_->RunFor(absl::Milliseconds(3000));
  EXPECT_THAT(call->describe(),
              AllOf(HasSubstr("1 of 2 members"),
                    HasSubstr("as the leader, task 0 (host0:7000), said ")));
}

TEST_F(ClusterResolveTest, AnyNumberOfCallsWaitsForATaskThatIsLate) {
  constexpr int kNumCalls = 3000;
  Begin({.num_tasks = 2});
  std::vector<CallPtr> calls;
  for (int i = 0; i < kNumCalls; ++i) {
    calls.push_back(cluster_->Request(1, 0, AllReduceOf(i % 50, 2, i)));
  }
  cluster_->RunFor(absl::Seconds(1));
  for (int i = kNumCalls - 1; i >= 0; --i) {
    EXPECT_TRUE(calls[i]->waits());
    calls.push_back(cluster_->Request(0, 0, AllReduceOf(i % 50, 2, i)));
  }
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& call : calls) ASSERT_THAT(call->status(), IsOk());
}

TEST_F(ClusterResolveTest, BytesOfCallsThatWaitAreBounded) {
  Begin({.num_tasks = 2});
  CollectiveRequest large = AllReduceOf(/*group_key=*/0, kMaxGroupSize, 1);
  large.impl_details.rank_list.resize(kMaxGroupSize);
  absl::c_iota(large.impl_details.rank_list, 0);
  std::vector<CallPtr> calls;
  do {
    ASSERT_LT(calls.size(), 1000u);
    large.group_key = static_cast<GroupKey>(calls.size());
    calls.push_back(cluster_->Request(1, 0, large));
    cluster_->RunFor(absl::Milliseconds(10));
  } while (calls.back()->waits());
  EXPECT_THAT(calls.back()->status(),
              IsResourceExhausted("task 1 (host1:7000) has ",
                                  " bytes that wait at the leader"));
}

TEST_F(ClusterResolveTest, WhoWaitsNoLongerLeavesNothing) {
  Begin({.num_tasks = 2});
  std::vector<CallPtr> calls;
  for (GroupKey key = 0; key < 2000; ++key) {
    calls.push_back(cluster_->Request(1, 0, AllReduceOf(key, 2, 1)));
  }
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(led(0).num_groups(), 2000u);
  for (const CallPtr& call : calls) {
    call->token->Cancel(absl::CancelledError("no more"));
  }
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(led(0).num_groups(), 0u);
}

TEST_F(ClusterResolveTest, InstancesOfATaskAreBounded) {
  Begin({.num_tasks = 2, .max_entries = 10});
  for (InstanceKey key = 0; key < 10; ++key) {
    RequestAll(Request(key));
    cluster_->RunFor(absl::Milliseconds(100));
  }
  EXPECT_THAT(cluster_->Request(1, 0, Request(10))->status(),
              IsResourceExhausted("10"));
  EXPECT_THAT(cluster_->Request(1, 0, Request(3))->status(), IsOk());
  EndGroup(1, "over");
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(Resolver(1).num_entries(), 0u);
  Settle(Request(10));
}

TEST_F(ClusterResolveTest, ADeviceOfAnotherTaskIsRefused) {
  Begin({.num_tasks = 2});
  absl::Status status;
  Resolver(1).CompleteInstanceAsync(
      cluster_->Device(0, 0),
      std::make_shared<const CollectiveRequest>(Request()), CallNumber{},
      nullptr, [&](auto params) { status = params.status(); });
  EXPECT_THAT(status, IsInvalidArgument("is not a device of this task"));
}

TEST_F(ClusterResolveTest, AnEmptyMessageAndTasksThatDoNotExistAreRefused) {
  Begin({.num_tasks = 2});
  const auto send = [&](ControlCaller caller, const proto::ControlRequest& m) {
    absl::Status status = absl::UnknownError("not answered");
    cluster_->control(0).Handle(caller, m, nullptr, [&](ControlAnswer answer) {
      status = answer.status();
    });
    return status;
  };
  const uint64_t incarnation = cluster_->Device(1, 0).incarnation;
  EXPECT_THAT(send({1, incarnation}, {}),
              IsInvalidArgument("asks for nothing"));
  proto::ControlRequest heartbeat;
  heartbeat.mutable_heartbeat()->set_hold_ms(5);
  for (int task : {-1, 2, 1 << 30}) {
    EXPECT_THAT(send({task, 5}, heartbeat),
                IsInvalidArgument("the tasks are 0 to 1"));
  }
  proto::ControlRequest cancel, cleanup;
  cancel.mutable_cancel_execution()->mutable_key()->set_group(kGroup);
  cancel.mutable_cancel_execution()->mutable_key()->set_generation(1);
  cleanup.mutable_cleanup_step()->set_step(1);
  for (const auto& request : {cancel, cleanup}) {
    EXPECT_THAT(send({1, incarnation}, request), IsUnimplemented("task 0"));
  }
  for (int hold_ms : {-1, 60'001, 1 << 30}) {
    heartbeat.mutable_heartbeat()->set_hold_ms(hold_ms);
    EXPECT_THAT(send({1, incarnation}, heartbeat),
                IsInvalidArgument(absl::StrCat("hold_ms is ", hold_ms)));
  }
  proto::ControlRequest end;
  end.mutable_end_group()->set_group_key(kGroup);
  end.mutable_end_group()->set_generation(UINT64_MAX);
  end.mutable_end_group()->mutable_reason()->set_code(1);
  EXPECT_THAT(send({1, incarnation}, end), IsInvalidArgument("generation"));
  end.mutable_end_group()->set_generation(1);
  end.mutable_end_group()->clear_reason();
  EXPECT_THAT(send({1, incarnation}, end), IsInvalidArgument("error.code"));
}

// Members exist only as messages, and the leader is outside the group.
TEST_F(ClusterResolveTest, WorkOfTheLeaderGrowsLinearly) {
  for (int num_members : {64, 256, 1024}) {
    cluster_ = std::make_unique<SimulatedCluster>(
        SimulatedCluster::Options{.num_tasks = num_members + 1});
    cluster_->Start(0, absl::ZeroDuration());
    cluster_->RunFor(absl::Seconds(1));
    const auto before = cluster_->traffic_of(0);
    int num_settled = 0;
    for (int task = 1; task <= num_members; ++task) {
      const MemberCall call{
          .device = {.name = {"worker", 0, task, "CPU", 0}, .incarnation = 5},
          .request = std::make_shared<const CollectiveRequest>(
              AllReduceOf(kGroup, num_members, 1))};
      proto::ControlRequest request;
      *request.mutable_complete_params() = *EncodeMemberCall(call);
      cluster_->Send({task, 5}, 0, request, [&](const ControlAnswer& answer) {
        ASSERT_THAT(answer, IsOk());
        num_settled += answer->complete_params().has_settled() ? 1 : 0;
      });
    }
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_EQ(num_settled, num_members);
    const auto after = cluster_->traffic_of(0);
    EXPECT_EQ(after.messages - before.messages, 2 * num_members);
    const int64_t bytes_per_member = (after.bytes - before.bytes) / num_members;
    // A request and an answer; the answer has an incarnation of each task.
    EXPECT_LT(bytes_per_member, 200 + 8 * num_members);
    RecordProperty(absl::StrCat("bytes_per_member_of_", num_members),
                   static_cast<int>(bytes_per_member));
  }
}

std::shared_ptr<const SelectionRules> AlwaysRun(const std::string& name) {
  return std::make_shared<const SelectionRules>(
      SelectionRules{{{.implementation = name}}});
}

TEST_F(ClusterResolveTest, TheRulesOfTheLeaderDecideForAll) {
  Begin({.num_tasks = 3,
         .policies = {{.rules = AlwaysRun("TreeReduce")},
                      {.rules = AlwaysRun("RingReduce")}}});
  auto calls = RequestAll(Request());
  cluster_->RunFor(absl::Seconds(1));
  ExpectEnds(calls, IsOk());
  for (const CallPtr& call : calls) {
    EXPECT_EQ(call->params().instance->impl_details.implementation,
              "TreeReduce");
  }
}

// If messages cost almost nothing, the algorithm that sends fewer bytes is
// faster.
TEST_F(ClusterResolveTest, TheCostsOfTheLeaderDecideForAll) {
  CostModel costly;
  costly.between.latency_seconds = 1;
  CostModel cheap;
  cheap.between.latency_seconds = 0;
  cheap.between_gap_seconds = 0;
  for (const bool is_cheap : {false, true}) {
    Begin({.num_tasks = 4,
           .policies = {{.model = is_cheap ? cheap : costly},
                        {.model = is_cheap ? costly : cheap}}});
    const auto calls = Settle(Request());
    for (const CallPtr& call : calls) {
      EXPECT_EQ(call->params().instance->impl_details.implementation,
                is_cheap ? "RecursiveHalvingDoublingReduce"
                         : "RecursiveDoublingReduce");
    }
  }
}

TEST_F(ClusterResolveTest, DemandsForDeterminismAreComparedAndMet) {
  Begin({.num_tasks = 2, .policies = {{.rules = AlwaysRun("RingReduce")}}});
  CollectiveRequest ordered = Request(/*key=*/1);
  ordered.impl_details.determinism = Determinism::kByRankOrder;
  const auto calls = Settle(ordered);
  for (const CallPtr& call : calls) {
    const std::string& name =
        call->params().instance->impl_details.implementation;
    EXPECT_EQ((*CollectiveRegistry::Global().Find(name))->traits().determinism,
              Determinism::kByRankOrder)
        << name;
  }
  ordered.instance_key = 2;
  const auto first = cluster_->Request(0, 0, ordered);
  const CallPtr second = RequestAndRun(1, Request(/*key=*/2));
  ExpectEnds({first, second},
             IsInvalidArgument("differ in determinism", "by rank order"));
}

// Ends of groups on all tasks, and the generations that follow.

class ClusterGroupEndTest : public ClusterResolveTest {
 protected:
  // Request by which a task ends its group.
  static proto::ControlRequest EndOf(uint64_t generation) {
    proto::ControlRequest request;
    request.mutable_end_group()->set_group_key(kGroup);
    request.mutable_end_group()->set_generation(generation);
    request.mutable_end_group()->mutable_reason()->set_code(
        static_cast<int>(StatusCode::kAborted));
    return request;
  }
};

TEST_F(ClusterGroupEndTest, AGroupThatCannotBeFormedFailsUntilItIsEnded) {
  Begin({.num_tasks = 3});
  const auto one = cluster_->Request(1, 0, AllReduceOf(kGroup, 3, 1));
  const CallPtr two = RequestAndRun(2, AllReduceOf(kGroup, 2, 1));
  const CallPtr late = RequestAndRun(0, AllReduceOf(kGroup, 3, 1));
  ExpectEnds({one, two, late},
             IsInvalidArgument("asks for size",
                               "; the group has failed: "
                               "ReformGroup() begins it anew"));
  Resolver(2).EndGroup(kGroup, absl::CancelledError("start over"));
  cluster_->RunFor(absl::Seconds(1));
  Settle(Request());
}

TEST_F(ClusterGroupEndTest, ADeviceTooManyEndsTheGroupOnAllTasks) {
  Begin({.num_tasks = 4});
  std::vector<CallPtr> calls;
  const auto request = AllReduceOf(kGroup, 2, 1);
  for (int task : {1, 2}) calls.push_back(cluster_->Request(task, 0, request));
  cluster_->RunFor(absl::Seconds(1));
  ExpectEnds(calls, IsOk());
  const CallPtr third = RequestAndRun(3, request);
  EXPECT_THAT(third->status(), IsInvalidArgument("wants to join"));
  ExpectGroupEnds(calls, IsInvalidArgument("wants to join"));
}

TEST_F(ClusterGroupEndTest, EndGroupReachesAllTasksAndTheNextGenerationForms) {
  for (int ending = 0; ending < 4; ++ending) {
    Begin({.num_tasks = 4, .seed = static_cast<uint64_t>(ending)});
    uint64_t last_generation = 0;
    for (int round = 0; round < 3; ++round) {
      const auto calls = Settle(Request());
      const auto waiting = cluster_->Request(3, 0, Request(2));
      cluster_->RunFor(absl::Milliseconds(10));
      EndGroup(ending, "enough");
      cluster_->RunFor(absl::Milliseconds(5));
      ExpectGroupEnds(calls, IsAborted("enough"));
      EXPECT_THAT(waiting->status(), IsAborted("enough"));
      EXPECT_GT(calls[0]->params().group->generation, last_generation);
      last_generation = calls[0]->params().group->generation;
      cluster_->RunFor(absl::Seconds(1));
      ExpectNothingWaits();
      EXPECT_EQ(led(0).num_groups(), 0u);
    }
  }
}

TEST_F(ClusterGroupEndTest, TheFirstReasonOfAnEndStays) {
  Begin({.num_tasks = 3});
  const auto calls = Settle(Request());
  const auto end = [this](int task, absl::string_view why) {
    Resolver(task).EndGroup(kGroup, absl::AbortedError(why));
  };
  end(1, "first");
  cluster_->RunFor(absl::Milliseconds(10));
  end(2, "second");
  cluster_->RunFor(absl::Seconds(1));
  ExpectGroupEnds(calls, IsAborted("first"));
}

// Some watchers of a group run before this task has forgotten the group. The
// leader may learn of the end first from a task that calls again.
TEST_F(ClusterGroupEndTest, WhoAsksOnTheWordOfTheEndJoinsTheNextGeneration) {
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(absl::StrCat("round ", i));
    const int asking = i % 2;
    const int ending = i / 2 % 2;
    Begin({.num_tasks = 2, .seed = static_cast<uint64_t>(i + 1)});
    const auto calls = Settle(Request());
    const auto group = calls[asking]->params().group;
    std::vector<CallPtr> requested;
    for (int watcher = 0; watcher < 16; ++watcher) {
      group->cancellation->Watch([&](const absl::Status&) {
        requested.push_back(cluster_->Request(asking, 0, Request()));
      });
    }
    EndGroup(ending, "enough");
    if (asking == ending) cluster_->RunFor(absl::Seconds(1));
    const CallPtr other = RequestAndRun(1 - asking, Request());
    EXPECT_EQ(requested.size(), 16u);
    requested.push_back(other);
    ExpectEnds(requested, IsOk());
    for (const CallPtr& call : requested) {
      EXPECT_GT(call->params().group->generation, group->generation);
    }
  }
}

TEST_F(ClusterGroupEndTest, ALateEndOfAnOlderGenerationIsIgnored) {
  Begin({.num_tasks = 2});
  const auto old = Settle(Request());
  EndGroup(0, "old");
  cluster_->RunFor(absl::Seconds(1));
  const auto calls = Settle(Request());
  const proto::ControlRequest request =
      EndOf(old[0]->params().group->generation);
  for (int task : {0, 1}) {
    (void)Send(1 - task, task, request);
  }
  for (const CallPtr& call : calls) {
    EXPECT_FALSE(call->params().group->cancellation->cancelled());
  }
}

TEST_F(ClusterGroupEndTest, EndGroupEndsAGroupThatIsBeingFormed) {
  for (int ending : {0, 1, 2}) {
    Begin({.num_tasks = 4});
    std::vector<CallPtr> calls;
    for (int task : {0, 1, 2}) {
      calls.push_back(cluster_->Request(task, 0, Request()));
    }
    cluster_->RunFor(absl::Seconds(1));
    EndGroup(ending, "never mind");
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(calls, IsAborted("never mind"));
    EXPECT_EQ(led(0).num_groups(), 0u);
  }
}

TEST_F(ClusterGroupEndTest, EachCallEndsWithTheReasonOfItsOwnEnd) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Begin({.num_tasks = 2, .seed = seed, .max_delay = absl::Milliseconds(300)});
    ParamResolverDistributed& resolver = *cluster_->control(1).param_resolver();
    std::vector<CallPtr> calls;
    for (InstanceKey key = 0; key < 8; ++key) {
      calls.push_back(cluster_->Request(1, 0, Request(key)));
    }
    resolver.EndGroup(kGroup, absl::AbortedError("first"));
    const CallPtr later = cluster_->Request(1, 0, Request(8));
    resolver.EndGroup(kGroup, absl::AbortedError("second"));
    cluster_->RunFor(absl::Seconds(20));
    ExpectEnds(calls, absl::AbortedError("first"));
    EXPECT_EQ(later->status(), absl::AbortedError("second"));
  }
}

TEST_F(ClusterGroupEndTest, ATaskThatDoesNotWaitCannotEndAGroupBeingFormed) {
  Begin({.num_tasks = 3});
  const CallPtr call = RequestAndRun(1, Request());
  for (int task : {0, 2}) {
    EndGroup(task, "not mine");
  }
  (void)Send(2, 0, EndOf(/*generation=*/0));
  EXPECT_TRUE(call->waits());
}

// A bad generation from one member affects no other task, nor the member's
// later calls.
TEST_F(ClusterGroupEndTest, AGenerationThatCannotBeIsNotCountedOnFrom) {
  for (int shift : {40, 41, 42, 61, 62}) {
    SCOPED_TRACE(absl::StrCat("2^", shift));
    const uint64_t generation = uint64_t{1} << shift;
    Begin({.num_tasks = 3});
    proto::ControlRequest request;
    *request.mutable_complete_params() =
        *EncodeMemberCall({.device = cluster_->Device(2, 0),
                           .request = std::make_shared<const CollectiveRequest>(
                               AllReduceOf(8, 2, 1)),
                           .ended_generation = generation});
    const ControlAnswer answer = Send(2, 0, request);
    if (shift > 41) {
      ASSERT_THAT(answer, IsOk());
      EXPECT_THAT(DecodeError(answer->complete_params().failure().reason()),
                  IsInvalidArgument("ended_generation"));
    }
    for (int round = 0; round < 3; ++round) {
      for (InstanceKey key : {1, 2}) {
        Settle(Request(key));
      }
      EndGroup(round, "enough");
      cluster_->RunFor(absl::Seconds(1));
    }
  }
}

TEST_F(ClusterGroupEndTest, TheEndOfAGenerationThatCannotBeIsNotBelieved) {
  for (int shift : {39, 40, 41, 61, 62}) {
    SCOPED_TRACE(absl::StrCat("2^", shift));
    Begin({.num_tasks = 3});
    for (int liar : {1, 2}) {
      Settle(Request());
      const ControlAnswer answer =
          Send(liar, liar == 1 ? 0 : 1, EndOf(uint64_t{1} << shift));
      if (shift > 40) {
        EXPECT_THAT(answer, IsInvalidArgument("says has ended"));
      }
      for (int task : {0, 1, 2}) {
        EndGroup(task, "enough");
      }
      cluster_->RunFor(absl::Seconds(1));
    }
  }
}

// Changes every field of every request between tasks in every way. Each request
// ends in a status, or waits as a valid one would, and the task continues to
// serve.

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
    request.add_recv_rows(i + 1);
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
  call.set_group_only(true);
  return message;
}

std::vector<proto::ControlRequest> AllRequests(const DeviceAttributes& device) {
  std::vector<proto::ControlRequest> all(7);
  *all[0].mutable_hello()->add_devices() = DeviceMessage(device);
  all[0].mutable_hello()->set_num_tasks(kNumTasks);
  all[0].mutable_hello()->set_hold_ms(10);
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
  all.emplace_back().mutable_goodbye()->set_hold_ms(1000);
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
  tensor.set_final_op("last");
  tensor.set_root(1);
  tensor.add_send_rows(1);
  submit.set_slots("\x05");
  submit.set_joins(true);
  submit.set_coordinator(1);
  submit.add_ranks(0);
  proto::AwaitDecisions& await = *all.emplace_back().mutable_await_decisions();
  await.set_after(1);
  await.set_coordinator(1);
  await.add_ranks(0);
  proto::EndDecisions& end = *all.emplace_back().mutable_end_decisions();
  *end.mutable_reason() = SomeError();
  end.set_cancels_runs(true);
  end.set_coordinator(1);
  end.add_ranks(0);
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

// Many threads of each task call, cancel, end groups and reduce named tensors.

constexpr int kTasks = 3;
constexpr uint64_t kIncarnation = 5;

// Registry of the running tasks.
class Tasks {
 public:
  void Set(int task, std::shared_ptr<ClusterControl> control)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::swap(tasks_[task], control);
    ended_.push_back(std::move(control));
  }
  std::shared_ptr<ClusterControl> Get(int task) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return tasks_[task];
  }

 private:
  Mutex mu_;
  std::vector<std::shared_ptr<ClusterControl>> ended_ ABSL_GUARDED_BY(mu_);
  std::array<std::shared_ptr<ClusterControl>, kTasks> tasks_
      ABSL_GUARDED_BY(mu_);
};

// Calls the other tasks' services on the calling thread.
class DirectChannel : public ControlChannel {
 public:
  DirectChannel(int task, Tasks* tasks) : task_(task), tasks_(tasks) {}

  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done) override {
    const auto control = tasks_->Get(task);
    if (control == nullptr) {
      return std::move(done)(absl::CancelledError("the test is over"));
    }
    if (options.cancellation == nullptr) {
      options.cancellation = std::make_shared<Cancellation>();
    }
    control->Handle({task_, kIncarnation}, request, options.cancellation,
                    std::move(done));
  }

 private:
  const int task_;
  Tasks* const tasks_;
};

TEST(ClusterConcurrencyTest, CallsCancellationsAndEndsFromManyThreads) {
  DefaultEnvironment environment(/*num_workers=*/2);
  std::vector<std::shared_ptr<DeviceManager>> devices;
  Tasks tasks;
  for (int task = 0; task < kTasks; ++task) {
    std::vector<std::unique_ptr<Device>> own;
    own.push_back(std::make_unique<CpuDevice>(DeviceAttributes{
        .name = {"worker", 0, task, "CPU", 0}, .incarnation = kIncarnation}));
    devices.push_back(*DeviceManager::Create(std::move(own)));
    tasks.Set(
        task,
        ClusterControl::Create(
            {.cluster = {.addresses = {"a:1", "b:1", "c:1"}, .this_task = task},
             .environment = environment.get(),
             .channel = std::make_shared<DirectChannel>(task, &tasks),
             .directory = std::make_shared<GroupDirectory>(),
             .devices = devices.back(),
             .incarnation = kIncarnation}));
  }
  constexpr int kCalls = 300;
  const auto run = [&](int task) {
    BlockingCounter answered(kCalls);
    std::vector<std::shared_ptr<Cancellation>> tokens;
    for (int i = 0; i < kCalls; ++i) {
      tokens.push_back(std::make_shared<Cancellation>());
      tasks.Get(task)->param_resolver()->CompleteInstanceAsync(
          devices[task]->devices()[0]->attributes(),
          std::make_shared<const CollectiveRequest>(
              AllReduceOf(i % 3, kTasks, i % 7)),
          CallNumber{.step_id = task, .execution = static_cast<uint64_t>(i)},
          tokens.back(), [&](auto) { answered.DecrementCount(); });
      if (i % 11 == task) {
        tokens[i / 2]->Cancel(absl::CancelledError("at will"));
      }
      if (i % 50 == 10 * task) {
        tasks.Get(task)->param_resolver()->EndGroup(
            i % 3, absl::AbortedError("at will"));
      }
      tasks.Get(task)->param_resolver()->DescribeWaiting(
          AllReduceOf(i % 3, kTasks, i % 7));
    }
    for (const auto& token : tokens) {
      token->Cancel(absl::CancelledError("over"));
    }
    answered.Wait();
  };
  std::vector<std::thread> threads;
  for (int task = 0; task < kTasks; ++task) threads.emplace_back(run, task);
  for (std::thread& thread : threads) thread.join();
  for (int task = 0; task < kTasks; ++task) {
    const auto control = tasks.Get(task);
    EXPECT_EQ(control->param_resolver()->num_waiting(), 0u);
    EXPECT_EQ(control->param_resolver()->leader().num_waiting(), 0u);
    tasks.Set(task, nullptr);
  }
}

// --- Groups without an instance ----------------------------------------------

class ClusterGroupTest : public ClusterResolveTest {
 protected:
  std::vector<CallPtr> RequestGroups(const std::vector<int>& tasks) {
    std::vector<CallPtr> calls;
    for (int task : tasks) {
      calls.push_back(cluster_->RequestGroup(task, 0, Request()));
    }
    cluster_->RunFor(absl::Seconds(1));
    return calls;
  }
};

TEST_F(ClusterGroupTest, IsFormedOnceOnAllTasksAndLookedUpWithoutAMessage) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Begin({.num_tasks = 3, .seed = seed});
    const auto calls = RequestGroups({2, 0, 1});
    ExpectEnds(calls, IsOk());
    for (int rank = 0; rank < 3; ++rank) {
      const CollGroupParams& group = *calls[rank]->params().group;
      EXPECT_EQ(group.generation, calls[0]->params().group->generation);
      EXPECT_EQ(group.members[rank].device, cluster_->Device(rank, 0));
    }
    ExpectNothingWaits();
    const int64_t messages = cluster_->traffic().messages;
    for (int task : {0, 1, 2}) {
      const CallPtr again = cluster_->RequestGroup(task, 0, Request());
      ExpectEnds({again}, IsOk());
      CollectiveRequest other_rank = Request();
      other_rank.rank = 1 - task % 2;
      EXPECT_THAT(cluster_->RequestGroup(task, 0, other_rank)->status(),
                  IsInvalidArgument("asks for 3 of type CPU, as rank"));
    }
    EXPECT_EQ(cluster_->traffic().messages, messages);
    const auto settled = Settle(Request());
    EXPECT_EQ(settled[1]->params().group, calls[2]->params().group);
    EXPECT_EQ(settled[1]->params().group->generation,
              calls[0]->params().group->generation);
  }
}

TEST_F(ClusterGroupTest, SaysWhoHadNotJoinedAndACancelledCallLeaves) {
  Begin({.num_tasks = 3});
  const auto calls = RequestGroups({1, 2});
  EXPECT_THAT(calls[0]->describe(),
              AllOf(HasSubstr("group phase: 2 of 3 members had joined group 7"),
                    HasSubstr("task:1/device:CPU:0")));
  for (const CallPtr& call : calls) {
    call->token->Cancel(absl::CancelledError("no more"));
  }
  cluster_->RunFor(absl::Seconds(1));
  ExpectEnds(calls, StatusIs(StatusCode::kCancelled, "no more"));
  ExpectNothingWaits();
  EXPECT_EQ(led(0).num_groups(), 0u);
}

TEST_F(ClusterGroupTest, FormsTheGroupForMembersThatWantAnInstance) {
  Begin({.num_tasks = 3});
  const CallPtr settles = cluster_->Request(1, 0, Request());
  const auto calls = RequestGroups({0, 2});
  ExpectEnds(calls, IsOk());
  EXPECT_TRUE(settles->waits());
  EXPECT_THAT(settles->describe(), HasSubstr("instance phase: rank 0"));
  const std::vector<CallPtr> others = {cluster_->Request(0, 0, Request()),
                                       cluster_->Request(2, 0, Request())};
  cluster_->RunFor(absl::Seconds(1));
  ExpectEnds(others, IsOk());
  ExpectEnds({settles}, IsOk());
}

TEST_F(ClusterGroupTest, TheLossOfATaskEndsItAndCallsForIt) {
  Begin({.num_tasks = 3});
  const auto formed = RequestGroups({0, 1, 2});
  ExpectEnds(formed, IsOk());
  cluster_->Kill(2);
  cluster_->RunFor(absl::Seconds(1));
  for (int task : {0, 1}) {
    EXPECT_THAT(GroupEnd(formed[task]), IsUnavailable("task 2"));
  }
  const auto late = RequestGroups({0, 1});
  ExpectEnds(late, IsUnavailable("task 2"));
}

TEST_F(ClusterGroupTest, TheEndOfAStepDoesNotEndACallForIt) {
  Begin({.num_tasks = 2});
  const auto calls = RequestGroups({1});
  for (int64_t step : {-1, 0, 1}) Resolver(0).EndStep(step);
  EXPECT_TRUE(calls[0]->waits());
  ExpectEnds(RequestGroups({0}), IsOk());
  ExpectEnds(calls, IsOk());
}

}  // namespace cluster_resolve_test
}  // namespace tutti
