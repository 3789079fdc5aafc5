// Tests of the results of members in any processes.

#include "implementations/two_level/local_then.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/reduce/reduction_test_data.h"
#include "implementations/two_level/local_then_testing.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_test {

using testing::Combine;
using testing::Each;
using testing::Optional;
using testing::Values;

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

}  // namespace local_then_test
}  // namespace tutti
