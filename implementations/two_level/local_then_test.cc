#include "implementations/two_level/local_then.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/peer/local_peer_access.h"
#include "framework/reduce/reduction_test_data.h"
#include "implementations/two_level/local_then_testing.h"
#include "tests/doubles/failing_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_test {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Combine;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::Values;

// Tests of the results of members in any processes.

using Call = Processes::Call;

REGISTER_COLLECTIVE(ThenRingByElement, LocalThenFactory<"RingReduce", 0>());

class LocalThenLayoutsTest
    : public testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {
};
INSTANTIATE_TEST_SUITE_P(
    NamesAndDevices, LocalThenLayoutsTest,
    Combine(Values("LocalThenRing", "LocalThenRecursiveHalvingDoubling",
                   "LocalThenDoubleTree", "LocalThenRecursiveDoubling",
                   "ThenRing", "ThenHalving", "ThenTrees", "ThenRingByElement"),
            Values(std::vector<int>{3}, std::vector<int>{1, 1},
                   std::vector<int>{2, 2}, std::vector<int>{2, 3},
                   std::vector<int>{1, 4, 2}, std::vector<int>{3, 3, 3, 3},
                   std::vector<int>{2, 1, 1, 2, 9})));

// Sums integers, which are the same in any order.
TEST_P(LocalThenLayoutsTest, EveryMemberGetsTheReduction) {
  const auto& [name, devices] = GetParam();
  Processes processes(devices);
  int64_t instance = 0;
  // Covers no elements, few elements, one chunk, and several chunks with a
  // shorter last one.
  for (const int64_t num_elements : {int64_t{0}, int64_t{1}, int64_t{7},
                                     kChunkElements, 5 * kChunkElements + 3}) {
    SCOPED_TRACE(num_elements);
    CollectiveRequest request =
        processes.Request(name, DType::kInt32, num_elements);
    request.instance_key = ++instance;
    if (instance % 2 == 0) request.final_op = FinalOp::DivideByGroupSize();
    // Runs the same instance again.
    for (const bool in_place : {false, true}) {
      std::vector<Call> calls =
          RandomCalls(processes, DType::kInt32, num_elements, 100 * instance);
      const Bytes expected = Expected(request, processes.task_of(), calls);
      processes.RunAll(request, calls, in_place);
      ExpectAll(calls, expected);
    }
  }
}

TEST(LocalThenTest, EveryDtypeAndReductionIsThatOfTheTasksInTurn) {
  Processes processes({2, 2});
  int64_t instance = 0;
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    constexpr int64_t kNumElements = 1023;
    CollectiveRequest request =
        processes.Request("ThenRing", pair.dtype, kNumElements);
    request.instance_key = ++instance;
    request.merge_op = pair.kind;
    std::vector<Call> calls =
        RandomCalls(processes, pair.dtype, kNumElements, 10 * instance);
    const Bytes expected = Expected(request, processes.task_of(), calls);
    processes.RunAll(request, calls);
    ExpectAll(calls, expected);
  }
}

TEST(LocalThenTest, RanksMayBeDealtOutToTasksInTurn) {
  Processes processes({2, 1, 3}, /*seed=*/1, /*in_turn=*/true);
  ASSERT_EQ(processes.task_of(), (std::vector<int>{0, 1, 2, 0, 2, 2}));
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kFloat32, 3 * kChunkElements + 5);
  request.merge_op = ReductionKind::kMax;
  std::vector<Call> calls =
      RandomCalls(processes, DType::kFloat32, request.shape.num_elements());
  const Bytes expected = Expected(request, processes.task_of(), calls);
  processes.RunAll(request, calls);
  ExpectAll(calls, expected);
}

TEST(LocalThenTest, WhatIsPreparedRunsAgainAndAgain) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenHalving", DType::kInt32, 2 * kChunkElements + 1);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 2 * kChunkElements + 1);
  std::vector<std::shared_ptr<PreparedCollective>> prepared(calls.size());
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    processes.executor(static_cast<int>(rank))
        .Prepare(processes.ArgsOf(static_cast<int>(rank), request, calls[rank],
                                  /*in_place=*/false),
                 [&prepared, rank](auto made) {
                   ASSERT_THAT(made.status(), IsOk());
                   prepared[rank] = *std::move(made);
                 });
  }
  processes.environment().RunAll();
  for (int i = 0; i < 3; ++i) {
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      ASSERT_NE(prepared[rank], nullptr);
      calls[rank].input[0] += static_cast<uint8_t>(i);
      prepared[rank]->Start([&call = calls[rank]](absl::Status status) {
        call.status = std::move(status);
      });
    }
    processes.environment().RunAll();
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      calls[rank].output = prepared[rank]->output();
    }
    ExpectAll(calls, Expected(request, processes.task_of(), calls));
  }
}

TEST(LocalThenTest, TasksMayShareAProcess) {
  LocalJob job({.num_tasks = 3, .devices_per_task = 2});
  for (int i = 0; i < 2; ++i) {
    for (const LocalJob::Call* call :
         job.RunAll(job.AllReduceRequest(5 * kChunkElements + 1, "ThenRing"))) {
      ASSERT_THAT(call->status, Optional(IsOk()));
      EXPECT_THAT(call->result(), Each(1 + 2 + 3 + 4 + 5 + 6));
    }
  }
}

// Tests of collectives that cannot run and are refused before any message.

REGISTER_COLLECTIVE(ThenNobody, LocalThenFactory<"Nobody">());
REGISTER_COLLECTIVE(ThenLocalReduce, LocalThenFactory<"LocalReduce">());
REGISTER_COLLECTIVE(ThenRingGather, LocalThenFactory<"RingGather">());
REGISTER_COLLECTIVE(ThenLocalThenRing, LocalThenFactory<"LocalThenRing">());

// Plans a send to a rank that does not exist.
Schedule PlanOfNoUse(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().Send(request.layout.size(), /*tag=*/0, Input(0));
  return builder.Build();
}
REGISTER_COLLECTIVE(
    NotPlannable,
    Scheduled({.traits = {.summary = "for a test",
                          .collectives = {CollectiveType::kAllReduce}},
               .plan = PlanOfNoUse}));
REGISTER_COLLECTIVE(ThenNotPlannable, LocalThenFactory<"NotPlannable">());

// Claims to be made of steps, but is not.
class Pretender : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(
      CollectiveContext* /*context*/) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext& /*context*/, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};
REGISTER_COLLECTIVE(
    Pretending,
    Implemented<Pretender>({.summary = "for a test",
                            .collectives = {CollectiveType::kAllReduce},
                            .is_made_of_steps = true}));
REGISTER_COLLECTIVE(ThenPretending, LocalThenFactory<"Pretending">());

TEST(LocalThenTest, WhatCannotReduceBetweenProcessesIsRefused) {
  Processes processes({2, 2});
  int64_t instance = 0;
  for (const auto& [name, code, text] :
       {std::tuple{"ThenNobody", StatusCode::kNotFound, "Nobody"},
        std::tuple{"ThenLocalReduce", StatusCode::kInvalidArgument,
                   "LocalReduce is no schedule that all-reduces"},
        std::tuple{"ThenLocalThenRing", StatusCode::kInvalidArgument,
                   "LocalThenRing is no schedule that all-reduces"},
        std::tuple{"ThenPretending", StatusCode::kInvalidArgument,
                   "Pretending is no schedule that all-reduces"},
        std::tuple{"ThenRingGather", StatusCode::kInvalidArgument,
                   "RingGather is no schedule that all-reduces"}}) {
    CollectiveRequest request = processes.Request(name, DType::kInt32, 4);
    request.instance_key = ++instance;
    std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
    processes.RunAll(request, calls);
    for (const Call& call : calls) {
      EXPECT_THAT(call.status, Optional(StatusIs(code, HasSubstr(text))));
    }
  }
}

TEST(LocalThenTest, WhatIsPreparedIsPlanned) {
  Processes processes({2, 1});
  CollectiveRequest request =
      processes.Request("ThenNotPlannable", DType::kInt32, 4);
  std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    processes.executor(static_cast<int>(rank))
        .Prepare(
            processes.ArgsOf(static_cast<int>(rank), request, calls[rank],
                             /*in_place=*/false),
            [&call = calls[rank]](auto made) { call.status = made.status(); });
  }
  processes.environment().RunAll();
  for (const size_t first : {0, 2}) {
    EXPECT_THAT(calls[first].status,
                Optional(IsInvalidArgument("NotPlannable")));
  }
}

TEST(LocalThenTest, AMergeOpThatNeedsTheOrderOfRanksIsRefused) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("LocalThenRing", DType::kInt32, 4);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/false, &num_calls);
  std::vector<Call> calls = RandomCalls(processes, DType::kInt32, 4);
  processes.RunAll(request, calls);
  for (const Call& call : calls) {
    EXPECT_THAT(call.status, Optional(IsInvalidArgument("LocalThenRing")));
  }
}

TEST(LocalThenTest, ATaskThatIsInSeveralProcessesIsRefused) {
  auto group = std::make_shared<CollGroupParams>();
  group->layout =
      std::make_shared<const GroupLayout>(GroupLayout::Uniform(2, 2));
  auto instance = std::make_shared<CollInstanceParams>();
  instance->impl_details.implementation = "LocalThenRing";
  auto task = std::make_shared<CollTaskParams>();
  task->is_local = {true, false, false, false};
  task->num_local = 1;
  CollectiveParams params;
  params.group = group;
  params.instance = instance;
  params.task = task;
  params.default_rank = 0;
  CollectiveContext context;
  context.params = &params;
  const auto implementation =
      (*CollectiveRegistry::Global().Find("LocalThenRing"))->Create();
  EXPECT_THAT(implementation->InitializeCollectiveContext(&context),
              IsInvalidArgument("LocalThenRing needs each task in one "
                                "process, but rank 1 is not in that of "
                                "rank 0"));
}

// Tests that a failure in any stage ends all members.

TEST(LocalThenTest, AMergeOpOfTheCallerRunsAndEndsAllMembersIfItFails) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  int num_calls = 0;
  request.merge_op = CustomSum(/*commutative=*/true, &num_calls);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 3 * kChunkElements);
  const Bytes expected = Expected(request, processes.task_of(), calls);
  num_calls = 0;
  processes.RunAll(request, calls);
  ExpectAll(calls, expected);

  // Fails at every merge, in every chunk and stage.
  const int most = num_calls;
  for (int num_good = 0; num_good < most; ++num_good) {
    ++request.instance_key;
    num_calls = 0;
    request.merge_op = CustomSum(/*commutative=*/true, &num_calls, num_good);
    processes.RunAll(request, calls);
    for (const Call& call : calls) {
      ASSERT_THAT(call.status, Optional(IsDataLoss("no merge"))) << num_good;
    }
  }
}

TEST(LocalThenTest, AFinalOpThatFailsEndsAllMembers) {
  Processes processes({2, 2});
  CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 3 * kChunkElements);
  for (int num_good = 0; num_good < 6; ++num_good) {
    ++request.instance_key;
    int num_calls = 0;
    request.final_op = *FinalOp::Custom(
        {.name = "fails", .apply = [&](DType, void*, int64_t, int) {
           return ++num_calls > num_good ? absl::DataLossError("no end")
                                         : absl::OkStatus();
         }});
    processes.RunAll(request, calls);
    for (const Call& call : calls) {
      ASSERT_TRUE(call.status.has_value()) << num_good;
    }
    const auto fails = [](const Call& call) { return !call.status->ok(); };
    EXPECT_TRUE(std::any_of(calls.begin(), calls.end(), fails)) << num_good;
  }
}

TEST(LocalThenTest, ATransferThatFailsEndsAllMembers) {
  const auto run = [](int64_t n) {
    LocalJob job({.num_tasks = 2,
                  .devices_per_task = 2,
                  .make_peer_access = [n](int64_t /*step_id*/) {
                    return std::make_unique<FailNthTransfer>(
                        std::make_unique<LocalPeerAccess>(), n);
                  }});
    int num_failed = 0;
    for (const LocalJob::Call* call :
         job.RunAll(job.AllReduceRequest(3 * kChunkElements, "ThenRing"))) {
      EXPECT_EQ(call->num_done, 1) << n;
      if (call->status->ok()) {
        EXPECT_THAT(call->result(), Each(1 + 2 + 3 + 4));
      } else {
        ++num_failed;
      }
    }
    return num_failed;
  };
  // Two members make two sends and two receives each, for each of three chunks.
  for (int64_t n = 1; n <= 24; ++n) EXPECT_GT(run(n), 0) << n;
  EXPECT_EQ(run(25), 0);
}

TEST(LocalThenTest, AProcessThatDoesNotComeEndsTheOthersByTheirDeadline) {
  Processes processes({2, 2});
  const CollectiveRequest request =
      processes.Request("ThenRing", DType::kInt32, 3 * kChunkElements);
  std::vector<Call> calls =
      RandomCalls(processes, DType::kInt32, 3 * kChunkElements);
  processes.RunAll(request, calls);  // The others need not come again.
  const absl::Time now = processes.environment().get().clock->Now();
  for (const int rank : {0, 1}) {
    processes.Start(rank, request, calls[static_cast<size_t>(rank)],
                    /*in_place=*/false, now + absl::Seconds(2));
  }
  processes.environment().RunAll();
  EXPECT_EQ(calls[0].status, std::nullopt);
  processes.environment().Advance(absl::Seconds(2));
  for (const int rank : {0, 1}) {
    EXPECT_THAT(calls[static_cast<size_t>(rank)].status,
                Optional(StatusIs(
                    StatusCode::kDeadlineExceeded,
                    AllOf(HasSubstr("run phase"),
                          HasSubstr("data of rank 2 for rank 0 (tag ")))));
  }
}

TEST(LocalThenTest, AGroupThatEndsEndsAllStages) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Processes processes({2, 2}, seed);
    const CollectiveRequest request =
        processes.Request("ThenRing", DType::kInt32, 9 * kChunkElements);
    std::vector<Call> calls =
        RandomCalls(processes, DType::kInt32, 9 * kChunkElements);
    processes.RunAll(request, calls);
    for (int rank = 0; rank < processes.size(); ++rank) {
      processes.Start(rank, request, calls[static_cast<size_t>(rank)]);
    }
    processes.environment().RunSome(static_cast<int>(seed % 20));
    processes.EndGroup(absl::AbortedError("over"));
    processes.environment().RunAll();
    for (const Call& call : calls) {
      ASSERT_TRUE(call.status.has_value());
      if (!call.status->ok()) {
        EXPECT_THAT(*call.status, IsAborted("over"));
      }
    }
  }
}

}  // namespace local_then_test
}  // namespace tutti
