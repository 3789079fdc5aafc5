// Tasks that talk over gRPC: steps that are cleaned up while much goes on in
// them, named tensors, and outfeeds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "outfeed/outfeed_testing.h"
#include "outfeed/remote/remote_outfeed_pair_testing.h"
#include "outfeed/remote/stream_link.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/cluster/named_call.h"
#include "tests/cluster/named_tensor_cases.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace tasks_grpc_test {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
      ASSERT_THAT(call.status, IsFailedPrecondition("twice"));
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

constexpr int kNumRanks = 3;

// Executions of one instance in which every member gives the rows.
class GivenRowsGrpcTest : public testing::Test {
 protected:
  using Rows = std::vector<int64_t>;

  void SetUp() override {
    auto runtimes = JoinedGrpcTasks(kTasks, environment_.get());
    ASSERT_THAT(runtimes, IsOk());
    runtimes_ = *std::move(runtimes);
  }

  // Calls on all tasks in a step of its own. Inputs hold the task's number plus
  // one.
  std::vector<absl::Status> Run(
      const std::function<std::pair<CollectiveOp, int64_t>(int task)>& op_of) {
    ++step_;
    std::deque<Call> calls(kTasks);
    for (int task = 0; task < kTasks; ++task) {
      auto [op, rows] = op_of(task);
      auto request = std::make_shared<CollectiveRequest>();
      request->group_key = 1;
      request->group_size = kTasks;
      request->instance_key = static_cast<InstanceKey>(op.index());
      request->op = std::move(op);
      request->shape = TensorShape::Vector(rows);
      Tensor input = *Tensor::Allocate(request->dtype, request->shape);
      std::fill_n(reinterpret_cast<float*>(input.mutable_data()), rows,
                  static_cast<float>(task + 1));
      Call& call = calls[task];
      runtimes_[task]->manager().FindOrCreate(step_)->ExecuteAsync(
          {.device = runtimes_[task]->devices()[0],
           .request = request,
           .input = std::move(input),
           .output = &call.output,
           .deadline = environment_.get().clock->Now() + absl::Seconds(60)},
          [&call](absl::Status status) {
            call.status = std::move(status);
            call.ended.DecrementCount();
          });
    }
    std::vector<absl::Status> ends;
    outputs_.assign(kTasks, {});
    for (int task = 0; task < kTasks; ++task) {
      calls[task].ended.Wait();
      ends.push_back(calls[task].status);
      const Tensor& output = calls[task].output;
      // A call that fails early leaves its output unset.
      if (!output.is_set()) continue;
      const auto* const begin = reinterpret_cast<const float*>(output.data());
      outputs_[task].assign(begin, begin + output.num_elements());
    }
    return ends;
  }

  const DefaultEnvironment environment_;
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
  int64_t step_ = 0;
  std::vector<std::vector<float>> outputs_;  // By task.
};

TEST_F(GivenRowsGrpcTest, AReduceScatterHasOtherRowsInEachExecution) {
  for (const Rows& rows : std::vector<Rows>{{2, 0, 1}, {0, 40'000, 3}}) {
    EXPECT_THAT(Run([&](int) {
                  return std::pair(
                      CollectiveOp(ReduceScatter{.uneven = true, .rows = rows}),
                      rows[0] + rows[1] + rows[2]);
                }),
                Each(IsOk()));
    for (int task = 0; task < kTasks; ++task) {
      EXPECT_EQ(outputs_[task], std::vector<float>(rows[task], 6));
    }
  }
  // Task 2 takes itself for larger, the others do not.
  EXPECT_THAT(Run([&](int task) {
                return std::pair(
                    CollectiveOp(ReduceScatter{
                        .uneven = true, .rows = {1, 1, task == 2 ? 3 : 2}}),
                    task == 2 ? int64_t{5} : int64_t{4});
              }),
              Each(IsInvalidArgument("bytes")));
}

TEST_F(GivenRowsGrpcTest, AnAllToAllHasOtherRowsInEachExecution) {
  for (const Rows& rows : std::vector<Rows>{{1, 2, 0}, {0, 3, 50'000}}) {
    // A task sends every task rows[its number].
    EXPECT_THAT(Run([&](int task) {
                  return std::pair(
                      CollectiveOp(AllToAll{.send_rows = Rows(3, rows[task]),
                                            .recv_rows = rows}),
                      3 * rows[task]);
                }),
                Each(IsOk()));
    std::vector<float> wanted(rows[0], 1);
    wanted.insert(wanted.end(), rows[1], 2);
    wanted.insert(wanted.end(), rows[2], 3);
    EXPECT_THAT(outputs_, Each(wanted));
  }
  // Task 0 expects nothing from task 1, which sends something. Task 2 has no
  // part in that transfer, and may have ended before.
  const auto fails = IsInvalidArgument("rank 1 to rank 0", "bytes");
  EXPECT_THAT(Run([&](int task) {
                return std::pair(CollectiveOp(AllToAll{
                                     .send_rows = Rows(3, 1),
                                     .recv_rows = {1, task == 0 ? 0 : 1, 1}}),
                                 int64_t{3});
              }),
              ElementsAre(fails, fails, AnyOf(IsOk(), fails)));
}

class NamedTensorsGrpcTest : public testing::Test {
 protected:
  void SetUp() override {
    auto runtimes = JoinedGrpcTasks(kNumRanks, environment_.get());
    ASSERT_THAT(runtimes, IsOk());
    runtimes_ = *std::move(runtimes);
  }

  RanksHere ranks() {
    RanksHere ranks{.num_ranks = kNumRanks};
    for (int rank = 0; rank < kNumRanks; ++rank) {
      ranks.coordinators[rank] = &runtimes_[rank]->coordinator();
    }
    return ranks;
  }

  DefaultEnvironment environment_{/*num_workers=*/2};
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
};

TEST_F(NamedTensorsGrpcTest, RanksMeetHearWhatDiffersAndShutDown) {
  const auto wait = [](const std::vector<NamedCallPtr>& calls) {
    for (const NamedCallPtr& call : calls) call->Wait();
    return true;
  };
  ExpectAllThreadsMeet(ranks());
  ExpectNamesAreAnyBytes(ranks(), wait);
  ExpectAllHearWhatDiffers(ranks(), wait);
  const auto waiting =
      CallAllGather(runtimes_[2]->coordinator(), "one asks",
                    Filled(DType::kFloat32, TensorShape::Vector(100), 1));
  BlockingCounter down(kNumRanks);
  for (const auto& runtime : runtimes_) {
    runtime->coordinator().Shutdown([&down](const absl::Status& status) {
      EXPECT_THAT(status, IsOk());
      down.DecrementCount();
    });
  }
  down.Wait();
  EXPECT_THAT(waiting->status, IsCancelled("shut down"));
}

// Each rank waits for another one, which makes no request; the destruction ends
// this.
TEST_F(NamedTensorsGrpcTest, DestructionEndsWhatWaits) {
  const auto first =
      CallAllReduce(runtimes_[1]->coordinator(), "x",
                    Filled(DType::kFloat32, TensorShape::Vector(1), 0));
  runtimes_.clear();
  EXPECT_EQ(first->num_answers, 1);
  EXPECT_FALSE(first->status.ok());
}

constexpr int kNumTasks = 2;
constexpr int64_t kStep = 11;
constexpr uint32_t kSmallId = 1;
constexpr uint32_t kLargeId = 2;
constexpr int64_t kLargeBytes = 300'000;
constexpr int64_t kNoLimit = int64_t{1} << 40;

class OutfeedGrpcTest : public testing::Test {
 protected:
  void SetUp() override {
    auto runtimes = JoinedGrpcTasks(kNumTasks, environment_.get());
    ASSERT_THAT(runtimes, IsOk());
    runtimes_ = *std::move(runtimes);
  }

  OutfeedConnection Connection(size_t task) {
    return {.executor = runtimes_[task]->manager().FindOrCreate(kStep),
            .device = runtimes_[task]->devices()[0],
            .group_key = 5,
            .instance_key = 6,
            .deadline = environment_.get().clock->Now() + absl::Seconds(60)};
  }

  void Start(int64_t max_queued_bytes) {
    pair_ = std::make_unique<RemoteOutfeedPair>(Connection(0), Connection(1));
    OutfeedRegistry& registry = pair_->registry();
    const ArraySpec number{DType::kInt32, TensorShape()};
    const ArraySpec large{DType::kUint8, TensorShape::Vector(kLargeBytes)};
    ASSERT_THAT(registry.Register(kSmallId, {number}), IsOk());
    ASSERT_THAT(registry.Register(kLargeId, {number, large}), IsOk());
    const auto on_item = [this](Device& device, uint32_t id,
                                absl::Span<Tensor> arrays) {
      bool is_right = NumberIn(arrays[0]) == num_received_;
      is_right &= device.attributes().name.task == 1;
      if (id == kLargeId) {
        const auto last = arrays[1].data()[kLargeBytes - 1];
        is_right &= last == static_cast<std::byte>(num_received_);
      }
      num_wrong_ += is_right ? 0 : 1;
      ++num_received_;
      return callback_ ? callback_() : absl::OkStatus();
    };
    ASSERT_THAT(pair_->Start(on_item, max_queued_bytes), IsOk());
  }

  absl::Status SendAll(int num_items) {
    const OutfeedSender sender = pair_->sender();
    absl::Status status;
    for (int i = 0; i < num_items && status.ok(); ++i) {
      if (i % 10 < 9) {
        status = sender.SendAndWait(kSmallId, {Number(i)});
        continue;
      }
      Tensor large = Bytes(kLargeBytes);
      large.mutable_data()[kLargeBytes - 1] = static_cast<std::byte>(i);
      status = sender.SendAndWait(kLargeId, {Number(i), large});
    }
    return status;
  }

  DefaultEnvironment environment_{/*num_workers=*/2};
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
  int num_received_ = 0;  // Used by callbacks, then by the test.
  int num_wrong_ = 0;
  std::function<absl::Status()> callback_;
  std::unique_ptr<RemoteOutfeedPair> pair_;
};

TEST_F(OutfeedGrpcTest, AWorkersItemsComeToTaskZeroInOrder) {
  Start(kNoLimit);
  EXPECT_THAT(SendAll(5000), IsOk());
  EXPECT_THAT(pair_->Shutdown(), IsOk());
  EXPECT_EQ(num_received_, 5000);
  EXPECT_EQ(num_wrong_, 0);
  EXPECT_THAT(pair_->AwaitExportEnd(), IsOk());
}

TEST_F(OutfeedGrpcTest, ASlowCallbackHoldsTheWorkerBack) {
  BlockingCounter may_go_on(1);
  callback_ = [&] {
    may_go_on.Wait();
    return absl::OkStatus();
  };
  Start(/*max_queued_bytes=*/100);
  const OutfeedSender sender = pair_->sender();
  // Capacity of both channels, the window and the receiver together.
  constexpr int kMostThatFit = 40;
  std::atomic<int> num_sent{0};
  BlockingCounter sent(2 * kMostThatFit);
  for (int i = 0; i < 2 * kMostThatFit; ++i) {
    Tensor large = Bytes(kLargeBytes);
    large.mutable_data()[kLargeBytes - 1] = static_cast<std::byte>(i);
    sender.Send(kLargeId, {Number(i), large}, [&](absl::Status status) {
      EXPECT_THAT(status, IsOk());
      ++num_sent;
      sent.DecrementCount();
    });
  }
  EXPECT_LT(num_sent, kMostThatFit);
  may_go_on.DecrementCount();
  sent.Wait();
  EXPECT_THAT(pair_->Shutdown(), IsOk());
  EXPECT_EQ(num_received_, 2 * kMostThatFit);
  EXPECT_EQ(num_wrong_, 0);
}

TEST_F(OutfeedGrpcTest, TheLossOfTheWorkerEndsTheReceiver) {
  Start(kNoLimit);
  EXPECT_THAT(SendAll(100), IsOk());
  runtimes_[1].reset();
  EXPECT_THAT(pair_->AwaitExportEnd(), Not(IsOk()));
  // If the stream still runs, Shutdown() ends it with the same error.
  EXPECT_THAT(pair_->Shutdown().message(), HasSubstr("task:1/"));
}

TEST_F(OutfeedGrpcTest, TheLossOfTaskZeroEndsTheWorker) {
  Start(/*max_queued_bytes=*/1000);
  EXPECT_THAT(SendAll(100), IsOk());
  runtimes_[0].reset();
  EXPECT_THAT(SendAll(100'000'000), Not(IsOk()));
  EXPECT_THAT(pair_->AwaitExportEnd().message(), HasSubstr("task:0/"));
}

TEST_F(OutfeedGrpcTest, TheEndOfTheGroupEndsBothEnds) {
  Start(/*max_queued_bytes=*/1000);
  runtimes_[0]->ReformGroup(5, absl::UnavailableError("reformed"));
  EXPECT_THAT(SendAll(100'000'000), IsUnavailable("reformed"));
  EXPECT_THAT(pair_->Shutdown(), IsUnavailable("reformed"));
}

// Messages around a ring of tasks, each with one place and one piece of memory.
class PointToPointGrpcTest : public testing::Test {
 protected:
  void SetUp() override {
    auto runtimes = JoinedGrpcTasks(kTasks, environment_.get());
    ASSERT_THAT(runtimes, IsOk());
    runtimes_ = *std::move(runtimes);
    groups_.resize(kTasks);
    BlockingCounter formed(kTasks);
    for (int task = 0; task < kTasks; ++task) {
      runtimes_[task]->manager().param_resolver().CompleteGroupAsync(
          runtimes_[task]->devices()[0]->attributes(),
          {.group_key = 1, .group_size = kTasks, .rank = task}, nullptr,
          [&, task](auto group) {
            EXPECT_THAT(group, IsOk());
            if (group.ok()) groups_[task] = *group;
            formed.DecrementCount();
          });
    }
    formed.Wait();
  }

  PointToPointArgs Args(int task, int peer, int tag, int64_t num_elements,
                        float value) {
    Tensor tensor =
        *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(num_elements));
    std::fill_n(reinterpret_cast<float*>(tensor.mutable_data()), num_elements,
                value);
    return {.device = runtimes_[task]->devices()[0],
            .group = groups_[task],
            .peer = peer,
            .tag = tag,
            .tensor = std::move(tensor)};
  }
  std::shared_ptr<CollectiveExecutor> ExecutorOf(int task) {
    return runtimes_[task]->manager().FindOrCreate(/*step_id=*/1);
  }

  DefaultEnvironment environment_{2};
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
  std::vector<std::shared_ptr<const CollGroupParams>> groups_;
};

TEST_F(PointToPointGrpcTest, MessagesOfAllSizesArriveInTheirOrder) {
  constexpr int64_t kCounts[] = {0, 1, 7, 1001, 300'000};
  constexpr int kMessages = 20;
  BlockingCounter ended(kTasks * kMessages);
  std::vector<Tensor> places;
  for (int i = 0; i < kMessages; ++i) {
    for (int task = 0; task < kTasks; ++task) {
      const int64_t count = kCounts[i % 5];
      auto recv = Args(task, (task + kTasks - 1) % kTasks, i % 3, count, -1);
      places.push_back(recv.tensor);
      ExecutorOf(task)->SendRecvAsync(
          Args(task, (task + 1) % kTasks, i % 3, count,
               static_cast<float>(100 * task + i)),
          std::move(recv), [&](const absl::Status& status) {
            EXPECT_THAT(status, IsOk());
            ended.DecrementCount();
          });
    }
  }
  ended.Wait();
  for (int i = 0; i < kMessages; ++i) {
    for (int task = 0; task < kTasks; ++task) {
      const Tensor& place = places[static_cast<size_t>(i * kTasks + task)];
      const auto* const values = reinterpret_cast<const float*>(place.data());
      const auto expected =
          static_cast<float>(100 * ((task + kTasks - 1) % kTasks) + i);
      EXPECT_EQ(std::count(values, values + place.num_elements(), expected),
                place.num_elements());
    }
  }
}

TEST_F(PointToPointGrpcTest, ReceivesFromAnyGetTheMessagesOfAllTasks) {
  constexpr int kMessages = 20;
  constexpr int kReceived = (kTasks - 1) * kMessages;
  BlockingCounter ended(2 * kReceived);
  const auto done = [&](const absl::Status& status) {
    EXPECT_THAT(status, IsOk());
    ended.DecrementCount();
  };
  std::vector<Tensor> places;
  std::vector<int> senders(kReceived, -1);
  for (int i = 0; i < kReceived; ++i) {
    auto recv = Args(0, PointToPointArgs::kAnyPeer, 0, 1001, -1);
    recv.sender = &senders[static_cast<size_t>(i)];
    places.push_back(recv.tensor);
    ExecutorOf(0)->RecvAsync(std::move(recv), done);
  }
  for (int i = 0; i < kMessages; ++i) {
    for (int task = 1; task < kTasks; ++task) {
      ExecutorOf(task)->SendAsync(
          Args(task, 0, 0, 1001, static_cast<float>(100 * task + i)), done);
    }
  }
  ended.Wait();
  std::vector<int> num_received(kTasks);
  for (size_t i = 0; i < places.size(); ++i) {
    ASSERT_TRUE(senders[i] > 0 && senders[i] < kTasks) << senders[i];
    const auto* const values = reinterpret_cast<const float*>(places[i].data());
    const int expected = 100 * senders[i] + num_received[senders[i]]++;
    EXPECT_EQ(std::count(values, values + 1001, expected), 1001);
  }
}

TEST_F(PointToPointGrpcTest, AMistakeAndAnEndReachBothTasks) {
  absl::Status sent, received, waited;
  BlockingCounter differ(2), end(1);
  ExecutorOf(0)->SendAsync(Args(0, 1, 0, 7, 1), [&](absl::Status status) {
    sent = std::move(status);
    differ.DecrementCount();
  });
  ExecutorOf(1)->RecvAsync(Args(1, 0, 0, 9, 1), [&](absl::Status status) {
    received = std::move(status);
    differ.DecrementCount();
  });
  differ.Wait();
  for (const absl::Status& status : {sent, received}) {
    EXPECT_THAT(status,
                IsInvalidArgument("rank 0 to rank 1, tag 0", "28 bytes", "36"));
  }
  ExecutorOf(1)->RecvAsync(Args(1, 0, 0, 9, 1), [&](absl::Status status) {
    waited = std::move(status);
    end.DecrementCount();
  });
  runtimes_[0]->manager().param_resolver().EndGroup(1,
                                                    absl::AbortedError("over"));
  end.Wait();
  EXPECT_THAT(waited, IsAborted("over"));
}

}  // namespace tasks_grpc_test
}  // namespace tutti
