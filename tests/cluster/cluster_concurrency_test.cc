// Many threads of each task call, cancel, end groups and reduce named tensors.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "resolvers/membership/cluster_control.h"
#include "tests/cluster/named_tensor_cases.h"
#include "tests/cluster/named_tensor_job.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/status_matchers.h"
#include "tests/doubles/stoppable_environment.h"
#include "tutti/device.h"
#include "tutti/environment.h"

namespace tutti {
namespace cluster_concurrency_test {

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
      tasks.Get(task)->param_resolver()->CompleteParamsAsync(
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

constexpr int kNumRanks = 3;

class NamedTensorsConcurrencyTest : public testing::Test {
 protected:
  NamedTensorsConcurrencyTest() {
    BlockingCounter joined(kNumRanks);
    for (int rank = 0; rank < kNumRanks; ++rank) {
      job_.runtime(rank).Join(environment_.Now() + absl::Seconds(60), nullptr,
                              [&joined](const absl::Status& status) {
                                EXPECT_THAT(status, IsOk());
                                joined.DecrementCount();
                              });
    }
    joined.Wait();
  }
  ~NamedTensorsConcurrencyTest() override { environment_.Stop(); }

  RanksHere ranks() {
    RanksHere ranks{.num_ranks = kNumRanks};
    for (int rank = 0; rank < kNumRanks; ++rank) {
      ranks.coordinators[rank] = &job_.at(rank);
    }
    return ranks;
  }

  StoppableEnvironment environment_;
  NamedTensorJob job_{kNumRanks, environment_.get(), {}};
};

TEST_F(NamedTensorsConcurrencyTest, AllThreadsOfAllRanksMeet) {
  ExpectAllThreadsMeet(ranks());
}

TEST_F(NamedTensorsConcurrencyTest, AShutdownAmongThreadsLeavesNobodyWaiting) {
  const auto ran = ExpectAShutdownLeavesNoThreadWaiting(ranks(), /*by=*/1);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    EXPECT_EQ(ran.at(rank), ran.at(1));
  }
}

TEST_F(NamedTensorsConcurrencyTest, ChainsOfRequestsNeedNoStack) {
  ExpectChainsEnd(ranks());
}

}  // namespace cluster_concurrency_test
}  // namespace tutti
