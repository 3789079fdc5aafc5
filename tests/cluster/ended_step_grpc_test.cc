// Steps that are cleaned up while much goes on in them, and those that follow.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace ended_step_grpc_test {

constexpr int kTasks = 3;
constexpr int kInstances = 20;
constexpr int kRounds = 40;

// Call of a task; all elements of a tensor are the same.
struct Call {
  Tensor output;
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  absl::Status status;
  BlockingCounter ended{1};
};

class EndedStepGrpcTest : public testing::Test {
 protected:
  void SetUp() override {
    auto runtimes = JoinedGrpcTasks(kTasks, environment_.get());
    ASSERT_THAT(runtimes, IsOk());
    runtimes_ = *std::move(runtimes);
  }

  // Requests few and many bytes, by different algorithms.
  std::shared_ptr<const CollectiveRequest> Request(int instance) const {
    constexpr int64_t kCounts[] = {1, 100, 1000, 50'000, 200'000};
    constexpr const char* kAlgorithms[] = {
        "RingReduce", "RecursiveDoublingReduce", "TreeReduce", "ShuffleReduce"};
    auto request = std::make_shared<CollectiveRequest>();
    request->group_key = group_key_;
    request->group_size = kTasks;
    request->instance_key = instance;
    request->op = AllReduce{};
    request->impl_details.implementation = kAlgorithms[instance % 4];
    request->shape = TensorShape::Vector(kCounts[instance % 5]);
    return request;
  }

  std::shared_ptr<CollectiveExecutor> ExecutorOf(int task, int64_t step) {
    return runtimes_[task]->manager().FindOrCreate(step);
  }

  void Start(Call& call, int task, int64_t step, int instance, float value) {
    const auto request = Request(instance);
    Tensor input = *Tensor::Allocate(request->dtype, request->shape);
    std::fill_n(reinterpret_cast<float*>(input.mutable_data()),
                input.num_elements(), value);
    ExecutorOf(task, step)
        ->ExecuteAsync(
            {.device = runtimes_[task]->devices()[0],
             .request = request,
             .input = std::move(input),
             .output = &call.output,
             .deadline = environment_.get().clock->Now() + absl::Seconds(60),
             .cancellation = call.cancellation},
            [&call](absl::Status status) {
              call.status = std::move(status);
              call.ended.DecrementCount();
            });
  }

  void CleanUp(int task, int64_t step) {
    BlockingCounter cleaned_up(1);
    runtimes_[task]->CleanupStep(step, [&](const absl::Status& status) {
      EXPECT_THAT(status, IsOk());
      cleaned_up.DecrementCount();
    });
    cleaned_up.Wait();
  }

  // All instances; `value` of task 0, and one more of each other one.
  void StartAll(std::deque<Call>& calls, int64_t step, int value) {
    for (int instance = 0; instance < kInstances; ++instance) {
      for (int task = 0; task < kTasks; ++task) {
        Start(calls.emplace_back(), task, step, instance,
              static_cast<float>(value + task));
      }
    }
  }

  // All instances but for a task that does not come to some, and one that gives
  // one up.
  void StartSome(std::deque<Call>& calls, int64_t step) {
    for (int instance = 0; instance < kInstances; ++instance) {
      const auto late = static_cast<int>(draw_() % (kTasks + 1));
      for (int task = 0; task < kTasks; ++task) {
        if (task != late) {
          Start(calls.emplace_back(), task, step, instance, 1000);
        }
      }
    }
    for (auto turns = draw_() % 200; turns > 0; --turns) {
      std::this_thread::yield();
    }
    if (draw_() % 2 == 0) return;
    calls[draw_() % calls.size()].cancellation->Cancel(
        absl::CancelledError("at will"));
  }

  // Cleans one step up on the way, and runs the next.
  void InterruptAndRunNext(int64_t step, int round) {
    std::deque<Call> interrupted, late, next;
    StartSome(interrupted, step);
    CleanUp(static_cast<int>(draw_() % kTasks), step);
    StartAll(next, step + 1, round);
    StartSome(late, step);
    for (auto* const calls : {&interrupted, &late, &next}) {
      for (Call& call : *calls) call.ended.Wait();
    }
    for (const Call& call : late) {
      ASSERT_THAT(call.status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                        testing::HasSubstr("twice")));
    }
    for (const Call& call : next) {
      ASSERT_THAT(call.status, IsOk()) << "round " << round;
      const auto* const sums =
          reinterpret_cast<const float*>(call.output.data());
      const auto sum = static_cast<float>(0 + 1 + 2 + kTasks * round);
      ASSERT_EQ(std::count(sums, sums + call.output.num_elements(), sum),
                call.output.num_elements())
          << "round " << round;
    }
    CleanUp(0, step + 1);
  }

  DefaultEnvironment environment_{2};
  std::mt19937_64 draw_{1};
  GroupKey group_key_ = 1;
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
};

TEST_F(EndedStepGrpcTest, WhatACleanupInterruptsDoesNotMeetTheNextStep) {
  std::deque<Call> settling;
  StartAll(settling, /*step=*/1, /*value=*/0);
  for (Call& call : settling) {
    call.ended.Wait();
    ASSERT_THAT(call.status, IsOk());
  }
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    InterruptAndRunNext(/*step=*/5 + 2 * round, round);
  }
}

TEST_F(EndedStepGrpcTest, NorWhereItsGroupsWereNotSettledBefore) {
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    ++group_key_;
    InterruptAndRunNext(/*step=*/5 + 2 * round, round);
  }
}

}  // namespace ended_step_grpc_test
}  // namespace tutti
