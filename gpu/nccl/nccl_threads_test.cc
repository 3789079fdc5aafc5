// Tests all-reduces of NCCL's double among tasks whose members call on separate
// threads, turns, and a communicator that fails on another thread.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/nccl_then.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/nccl/runtime/nccl_turns.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace nccl_threads_test {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Values;

constexpr int64_t kElements = 9;

class Tasks {
 public:
  explicit Tasks(std::string implementation = "NcclReduce")
      : tasks_({.num_tasks = 2, .environment = &environment_.get()}),
        request_(tasks_.Request(AllReduce{}, DType::kUint8, kElements)) {
    request_.impl_details.implementation = std::move(implementation);
  }

  FakeNcclTasks& tasks() { return tasks_; }

  // Runs `member` on a thread for each rank, and waits for all.
  template <typename Function>
  void RunMembers(Function member) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      threads.emplace_back([&, rank] { member(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Starts an all-reduce in place.
  void StartReduce(int rank, Tensor* tensor, StatusCallback done) {
    CollectiveRequest request = request_;
    request.rank = rank;
    tasks_.executor(rank, step_)
        ->ExecuteAsync(
            {.device = &tasks_.device(rank),
             .request = std::make_shared<const CollectiveRequest>(request),
             .input = *tensor,
             .output = tensor},
            std::move(done));
  }

  // Runs an all-reduce in place, and waits for its end.
  absl::Status Reduce(int rank, Tensor tensor) {
    BlockingCounter is_done(1);
    absl::Status ended;
    StartReduce(rank, &tensor, [&](absl::Status status) {
      ended = std::move(status);
      is_done.DecrementCount();
    });
    is_done.Wait();
    return ended;
  }

  // Expects the right sum in the next generation of the group, and in another
  // step. REQUIRES: no call is under way.
  void ExpectNextGenerationRuns() {
    tasks_.EndGroup(absl::AbortedError("formed again"));
    ++step_;
    RunMembers([this](int rank) { ExpectSum(rank, Allocate(rank), 1); });
  }

  // Reduces with `value` as input, and expects the sum.
  void ExpectSum(int rank, Tensor tensor, int value) {
    const std::vector<uint8_t> values(kElements, value);
    EXPECT_THAT(tasks_.gpus(rank).CopyAsync(
                    tensor.mutable_data(), values.data(), kElements,
                    tasks_.device(rank).compute_stream()),
                IsOk());
    EXPECT_THAT(Reduce(rank, tensor), IsOk());
    EXPECT_THAT(*tasks_.gpus(rank).Read(tensor.data(), kElements),
                Each(value * tasks_.size()));
  }

  Tensor Allocate(int rank) {
    return *tasks_.device(rank).Allocate(request_.dtype, request_.shape);
  }

 private:
  const DefaultEnvironment environment_{/*num_workers=*/2};
  FakeNcclTasks tasks_;
  CollectiveRequest request_;
  int64_t step_ = 1;
};

// Same as NcclThenRing, in five chunks.
REGISTER_COLLECTIVE(RingAfterNccl,
                    NcclThenFactory("RingReduce", /*chunk_bytes=*/2));

class ImplementationsTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(OneAndHybrid, ImplementationsTest,
                         Values("NcclReduce", "RingAfterNccl"));

TEST_P(ImplementationsTest, EveryMemberGetsEverySum) {
  Tasks group(GetParam());
  group.RunMembers([&](int rank) {
    const Tensor tensor = group.Allocate(rank);
    for (int run = 1; run <= 50; ++run) group.ExpectSum(rank, tensor, run);
  });
  EXPECT_THAT(group.tasks().gpus(0).Mistakes(), IsEmpty());
  EXPECT_THAT(group.tasks().network().Mistakes(), IsEmpty());
}

// More calls than may be under way at a time.
TEST(NcclThreadsTest, ManyCallsAtOnceAllEnd) {
  constexpr int kNumCalls = 5 * NcclGroup::kMostRunning;
  Tasks group;
  group.RunMembers([&](int rank) {
    Tensor tensor = group.Allocate(rank);
    // Forms the group first: earlier calls may be launched in any order.
    EXPECT_THAT(group.Reduce(rank, tensor), IsOk());
    BlockingCounter are_done(kNumCalls);
    for (int call = 0; call < kNumCalls; ++call) {
      group.StartReduce(rank, &tensor, [&](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
        are_done.DecrementCount();
      });
    }
    are_done.Wait();
  });
  EXPECT_LE(group.tasks().network().counts().most, NcclGroup::kMostRunning);
  EXPECT_THAT(group.tasks().network().Mistakes(), IsEmpty());
}

// Calls `fail` before call `num_good` of one member. Returns the status of each
// member's last call.
template <typename Function>
std::vector<absl::Status> LastStatuses(Tasks& group, int num_good,
                                       Function fail) {
  constexpr int kNumCalls = 12;
  std::vector<absl::Status> last(group.tasks().size());
  group.RunMembers([&](int rank) {
    const Tensor tensor = group.Allocate(rank);
    for (int run = 0; run < kNumCalls; ++run) {
      if (rank == num_good % 4 && run == num_good) fail();
      last[rank] = group.Reduce(rank, tensor);
    }
  });
  EXPECT_THAT(group.tasks().network().Mistakes(), IsEmpty());
  return last;
}

TEST_P(ImplementationsTest, AnAbortEndsAllCallsWheneverItComes) {
  for (int num_good = 1; num_good < 10; ++num_good) {
    Tasks group(GetParam());
    const auto abort = [&] {
      group.tasks()
          .executor(num_good % 4)
          ->StartAbort(absl::AbortedError("enough"));
    };
    EXPECT_THAT(LastStatuses(group, num_good, abort),
                Each(IsAborted("enough")));
    group.ExpectNextGenerationRuns();
  }
}

TEST_P(ImplementationsTest, AnErrorOfNcclEndsAllCallsWheneverItComes) {
  for (int num_good = 1; num_good < 10; ++num_good) {
    Tasks group(GetParam());
    const auto fail = [&] {
      group.tasks().network().FailAll(absl::InternalError("the link is down"));
    };
    EXPECT_THAT(LastStatuses(group, num_good, fail),
                Each(IsInternal("the link is down")));
    group.ExpectNextGenerationRuns();
  }
}

// The turns protect the counts, without a lock.
TEST(NcclThreadsTest, OneThreadAtATimeHasTheTurnOfAGpu) {
  constexpr int kGpus = 4;
  constexpr int kTurns = 2000;
  NcclTurns turns;
  std::vector<int> counts(kGpus);
  std::vector<std::thread> threads;
  for (int first = 0; first < kGpus; ++first) {
    threads.emplace_back([&turns, &counts, first] {
      const std::vector<int> gpus = {first, (first + 1) % kGpus};
      for (int turn = 0; turn < kTurns; ++turn) {
        BlockingCounter is_done(1);
        turns.Take(&gpus, gpus, [&] {
          for (const int gpu : gpus) ++counts[gpu];
          turns.GiveBack(&gpus);
          is_done.DecrementCount();
        });
        is_done.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(counts, Each(2 * kTurns));
}

// A communicator of one rank, ready for its next launch.
class OneRank {
 public:
  OneRank(SimulatedEnvironment& environment,
          std::shared_ptr<FakeNcclRuntime> nccl)
      : environment_(environment.get()), nccl_(std::move(nccl)) {
    absl::Status ended = absl::UnknownError("waits");
    Add(LaunchOf(&ended));
    EXPECT_THAT(ended, IsOk());
    group_->Ended();
  }

  // Makes a launch whose status goes to `ended`.
  static NcclGroup::Launch LaunchOf(absl::Status* ended) {
    return {.begin = [](const NcclTicket& /*ticket*/,
                        absl::Span<const NcclComm> comms)
                -> absl::StatusOr<std::vector<NcclPart>> {
              return std::vector<NcclPart>{{.comm = comms[0]}};
            },
            .launched =
                [ended](absl::Status status) { *ended = std::move(status); }};
  }
  void Add(NcclGroup::Launch launch) {
    group_->Add(
        [&] {
          return NcclGroup::Options{.nccl = nccl_,
                                    .id = nccl_->NewUniqueId().value(),
                                    .size = 1,
                                    .ranks = {{.rank = 0, .gpu = 0}},
                                    .environment = environment_,
                                    .cancellation = cancellation_};
        },
        std::move(launch));
  }
  void Break(absl::Status reason) { group_->Break(std::move(reason)); }

 private:
  const Environment environment_;
  const std::shared_ptr<FakeNcclRuntime> nccl_;
  const std::shared_ptr<Cancellation> cancellation_ =
      std::make_shared<Cancellation>();
  const std::shared_ptr<NcclGroup> group_ = std::make_shared<NcclGroup>();
};

// Another communicator has the turn meanwhile.
TEST(NcclThreadsTest, ALaunchThatWaitsForItsTurnFailsWheneverTheErrorComes) {
  constexpr int kNumRuns = 1000;
  constexpr int kNumDelays = 100;
  SimulatedEnvironment environment(1);
  FakeGpuRuntime gpus({.environment = environment.get()});
  const auto network = std::make_shared<FakeNcclNetwork>();
  const auto nccl = std::make_shared<FakeNcclRuntime>(network, &gpus);
  for (int run = 0; run < kNumRuns; ++run) {
    OneRank rank(environment, nccl);
    nccl->turns().Take(&environment, {0}, [] {});
    std::atomic<int> num_there = 0;
    const auto meet = [&num_there] {
      ++num_there;
      while (num_there < 2) std::this_thread::yield();
    };
    std::thread breaking([&] {
      absl::Status reason = absl::InternalError("the link is down");
      meet();
      // In some runs the error comes just when the launch begins to wait.
      for (int i = 0; i < run % kNumDelays; ++i) num_there.load();
      rank.Break(std::move(reason));
    });
    absl::Status ended = absl::UnknownError("waits");
    NcclGroup::Launch launch = OneRank::LaunchOf(&ended);
    meet();
    rank.Add(std::move(launch));
    breaking.join();
    environment.RunAll();
    EXPECT_THAT(ended, IsInternal("the link is down"));
    nccl->turns().GiveBack(&environment);
    environment.RunAll();
    if (HasFailure()) return;
  }
  EXPECT_THAT(network->Mistakes(), IsEmpty());
}

}  // namespace nccl_threads_test
}  // namespace tutti
