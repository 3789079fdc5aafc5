// Members on threads of their own, with the default environment's workers and
// timer: right results, and every call ends once, whatever meets whatever.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/blocking_counter.h"
#include "framework/default_environment.h"
#include "resolvers/local_group.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

constexpr int kNumDevices = 4;

std::shared_ptr<const CollectiveRequest> Request(int64_t instance_key,
                                                 int64_t num_elements) {
  CollectiveRequest request;
  request.group_key = 1;
  request.group_size = kNumDevices;
  request.instance_key = instance_key;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(num_elements);
  return std::make_shared<const CollectiveRequest>(request);
}

class ConcurrencyTest : public testing::Test {
 protected:
  // Runs `member` on one thread for each device.
  void OnAllDevices(const std::function<void(int device)>& member) {
    std::vector<std::thread> threads;
    for (int device = 0; device < kNumDevices; ++device) {
      threads.emplace_back(member, device);
    }
    for (std::thread& thread : threads) thread.join();
  }

  DefaultEnvironment environment_{2};
  std::unique_ptr<LocalGroup> group_ =
      *LocalGroup::Create(environment_.get(), 2, kNumDevices / 2);
};

TEST_F(ConcurrencyTest, EveryMemberOnItsThreadGetsTheSum) {
  const std::vector<std::shared_ptr<const CollectiveRequest>> requests = {
      Request(1, 1), Request(2, 1001), Request(3, 600'000)};
  OnAllDevices([&](int device) {
    for (int i = 0; i < 100; ++i) {
      const auto& request = requests[i % 50 == 0 ? 2 : i % 2];
      const auto num_elements =
          static_cast<size_t>(request->shape.num_elements());
      std::vector<float> values(num_elements, static_cast<float>(device + i));
      Tensor output =
          *Tensor::Wrap(DType::kFloat32, request->shape, values.data());
      absl::Status status;
      BlockingCounter done(1);
      group_->manager().FindOrCreate(1)->ExecuteAsync(
          {.device = group_->devices()[device],
           .request = request,
           .input = output,
           .output = &output},
          [&](absl::Status given) {
            status = std::move(given);
            done.DecrementCount();
          });
      done.Wait();
      ASSERT_THAT(status, IsOk());
      ASSERT_THAT(values, testing::Each(static_cast<float>(6 + 4 * i)));
    }
  });
}

TEST_F(ConcurrencyTest, CallsEndOnceUnderCancellationsAndDeadlines) {
  constexpr int kCalls = 300;
  const auto request = Request(1, 1001);
  std::atomic<int> num_done{0};
  BlockingCounter done(kNumDevices * kCalls);
  OnAllDevices([&](int device) {
    std::mt19937 generator(static_cast<unsigned>(device));
    Tensor input = *Tensor::Allocate(DType::kFloat32, request->shape);
    std::vector<Tensor> outputs(kCalls);
    BlockingCounter mine(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      CollectiveArgs args{.device = group_->devices()[device],
                          .request = request,
                          .input = input,
                          .output = &outputs[i]};
      const auto token = std::make_shared<Cancellation>();
      const unsigned fate = generator() % 8;
      if (fate < 2) args.cancellation = token;
      if (fate == 2) {
        args.deadline = absl::Now() + absl::Microseconds(generator() % 200);
      }
      group_->manager().FindOrCreate(1)->ExecuteAsync(std::move(args),
                                                      [&](absl::Status) {
                                                        ++num_done;
                                                        mine.DecrementCount();
                                                        done.DecrementCount();
                                                      });
      if (fate == 0) token->Cancel(absl::CancelledError("now"));
    }
    mine.Wait();
  });
  done.Wait();
  EXPECT_EQ(num_done, kNumDevices * kCalls);
}

TEST_F(ConcurrencyTest, CallsEndOnceWhenStepsAreCleanedUpMeanwhile) {
  constexpr int kCalls = 200;
  const auto request = Request(1, 70'000);
  std::thread cleaner([&] {
    for (int i = 0; i < 50; ++i) group_->manager().Cleanup(i % 3);
  });
  OnAllDevices([&](int device) {
    Tensor input = *Tensor::Allocate(DType::kFloat32, request->shape);
    std::vector<Tensor> outputs(kCalls);
    BlockingCounter mine(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      // Members may meet another incarnation of a step than they left.
      group_->manager().FindOrCreate(i % 3)->ExecuteAsync(
          {.device = group_->devices()[device],
           .request = request,
           .input = input,
           .output = &outputs[i],
           .deadline = absl::Now() + absl::Seconds(2)},
          [&](absl::Status) { mine.DecrementCount(); });
    }
    mine.Wait();
  });
  cleaner.join();
}

}  // namespace
}  // namespace tutti
