// Tests that a failure in any stage ends all members.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_failures_test {

using absl::StatusCode;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Optional;

using Call = Processes::Call;

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
      ASSERT_THAT(call.status, Optional(StatusIs(StatusCode::kDataLoss,
                                                 HasSubstr("no merge"))))
          << num_good;
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
        EXPECT_THAT(*call.status,
                    StatusIs(StatusCode::kAborted, HasSubstr("over")));
      }
    }
  }
}

}  // namespace local_then_failures_test
}  // namespace tutti
