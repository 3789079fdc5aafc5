// All-reduces of NCCL's double among tasks whose members call on threads of
// their own.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/blocking_counter.h"
#include "framework/collective_executor.h"
#include "framework/collective_request.h"
#include "framework/default_environment.h"
#include "framework/tensor.h"
#include "gmock/gmock.h"
#include "gpu/cuda_device.h"
#include "gpu/nccl/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kElements = 9;

class Tasks {
 public:
  Tasks()
      : tasks_({.num_tasks = 2, .environment = &environment_.get()}),
        request_(tasks_.Request(AllReduce{}, DType::kUint8, kElements)) {}

  FakeNcclTasks& tasks() { return tasks_; }

  // Runs `member` on a thread for each rank, until all return.
  template <typename Function>
  void RunMembers(Function member) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      threads.emplace_back([&, rank] { member(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // An all-reduce in place. Waits for its end.
  absl::Status Reduce(int rank, Tensor tensor) {
    CollectiveRequest request = request_;
    request.rank = rank;
    BlockingCounter is_done(1);
    absl::Status ended;
    tasks_.executor(rank)->ExecuteAsync(
        {.device = &tasks_.device(rank),
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = tensor,
         .output = &tensor},
        [&](absl::Status status) {
          ended = std::move(status);
          is_done.DecrementCount();
        });
    is_done.Wait();
    return ended;
  }

  Tensor Allocate(int rank) {
    return *tasks_.device(rank).Allocate(request_.dtype, request_.shape);
  }

 private:
  const DefaultEnvironment environment_{/*num_workers=*/2};
  FakeNcclTasks tasks_;
  const CollectiveRequest request_;
};

TEST(NcclThreadsTest, EveryMemberGetsEverySum) {
  Tasks group;
  group.RunMembers([&](int rank) {
    FakeNcclTasks& tasks = group.tasks();
    Tensor tensor = group.Allocate(rank);
    for (int run = 1; run <= 50; ++run) {
      const std::vector<uint8_t> ones(kElements, run);
      EXPECT_THAT(tasks.gpus(rank).CopyAsync(
                      tensor.mutable_data(), ones.data(), kElements,
                      tasks.device(rank).compute_stream()),
                  IsOk());
      EXPECT_THAT(group.Reduce(rank, tensor), IsOk());
      EXPECT_THAT(*tasks.gpus(rank).Read(tensor.data(), kElements),
                  Each(run * tasks.size()));
    }
  });
  EXPECT_THAT(group.tasks().gpus(0).Mistakes(), IsEmpty());
  EXPECT_THAT(group.tasks().network().Mistakes(), IsEmpty());
}

// One member has `fail` called before its call `num_good`. Returns what the
// last calls of all ended with.
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

TEST(NcclThreadsTest, AnAbortEndsAllCallsWheneverItComes) {
  for (int num_good = 1; num_good < 10; ++num_good) {
    Tasks group;
    const auto abort = [&] {
      group.tasks()
          .executor(num_good % 4)
          ->StartAbort(absl::AbortedError("enough"));
    };
    EXPECT_THAT(
        LastStatuses(group, num_good, abort),
        Each(StatusIs(absl::StatusCode::kAborted, HasSubstr("enough"))));
  }
}

TEST(NcclThreadsTest, AnErrorOfNcclEndsAllCallsWheneverItComes) {
  for (int num_good = 1; num_good < 10; ++num_good) {
    Tasks group;
    const auto fail = [&] {
      group.tasks().network().FailAll(absl::InternalError("the link is down"));
    };
    EXPECT_THAT(LastStatuses(group, num_good, fail),
                Each(StatusIs(absl::StatusCode::kInternal,
                              HasSubstr("the link is down"))));
  }
}

}  // namespace
}  // namespace tutti
