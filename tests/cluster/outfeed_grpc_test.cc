// An outfeed from one task to another over gRPC.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/outfeed_testing.h"
#include "outfeed/remote/remote_outfeed_pair.h"
#include "outfeed/remote/stream_link.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {
namespace outfeed_grpc_test {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST_F(OutfeedGrpcTest, AFailedCallbackReachesTheWorker) {
  callback_ = [this] {
    return num_received_ < 100 ? absl::OkStatus()
                               : absl::DataLossError("no disk");
  };
  Start(/*max_queued_bytes=*/1000);
  const auto failed = StatusIs(
      StatusCode::kDataLoss, AllOf(HasSubstr("task:1"), HasSubstr("no disk")));
  EXPECT_THAT(SendAll(100'000'000), failed);
  EXPECT_THAT(pair_->AwaitExportEnd(), failed);
  EXPECT_EQ(num_received_, 100);
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

TEST_F(OutfeedGrpcTest, AnAbortAtTaskZeroReachesTheWorker) {
  Start(/*max_queued_bytes=*/1000);
  runtimes_[0]->manager().FindOrCreate(kStep)->StartAbort(
      absl::AbortedError("stopped"));
  EXPECT_THAT(SendAll(100'000'000),
              StatusIs(StatusCode::kAborted, HasSubstr("stopped")));
  EXPECT_THAT(pair_->Shutdown(), StatusIs(StatusCode::kAborted, testing::_));
}

TEST_F(OutfeedGrpcTest, TheEndOfTheGroupEndsBothEnds) {
  Start(/*max_queued_bytes=*/1000);
  runtimes_[0]->ReformGroup(5, absl::UnavailableError("reformed"));
  EXPECT_THAT(SendAll(100'000'000),
              StatusIs(StatusCode::kUnavailable, HasSubstr("reformed")));
  EXPECT_THAT(pair_->Shutdown(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("reformed")));
}

}  // namespace outfeed_grpc_test
}  // namespace tutti
