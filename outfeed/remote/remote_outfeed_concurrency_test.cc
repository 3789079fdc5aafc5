// Tests both ends of outfeeds between processes, with threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/outfeed_testing.h"
#include "outfeed/remote/remote_outfeed_pair.h"
#include "outfeed/remote/stream_link.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace remote_outfeed_concurrency_test {

using ::testing::Not;

constexpr uint32_t kSmallId = 1;
constexpr uint32_t kLargeId = 2;
constexpr int kNumItems = 20'000;
constexpr int64_t kLargeBytes = 5000;

class RemoteOutfeedConcurrencyTest : public testing::Test {
 protected:
  void Start(int64_t max_queued_bytes, InstanceKey instance_key = 1) {
    num_received_ = 0;
    num_wrong_ = 0;
    pair_ = std::make_unique<RemoteOutfeedPair>(Connection(0, instance_key),
                                                Connection(1, instance_key));
    ASSERT_THAT(
        pair_->registry().Register(kSmallId, {{DType::kInt32, TensorShape()}}),
        IsOk());
    ASSERT_THAT(
        pair_->registry().Register(
            kLargeId, {{DType::kInt32, TensorShape()},
                       {DType::kUint8, TensorShape::Vector(kLargeBytes)}}),
        IsOk());
    const auto on_item = [this](Device&, uint32_t, absl::Span<Tensor> arrays) {
      num_wrong_ += NumberIn(arrays[0]) == num_received_++ ? 0 : 1;
      return callback_ ? callback_(num_received_) : absl::OkStatus();
    };
    ASSERT_THAT(pair_->Start(on_item, max_queued_bytes), IsOk());
  }

  OutfeedConnection Connection(int rank, InstanceKey instance_key) {
    return {.executor = group_->manager().FindOrCreate(step_id_),
            .device = group_->devices()[static_cast<size_t>(rank)],
            .group_key = 4,
            .instance_key = instance_key};
  }

  // Sends the items. Returns the status of the last send.
  absl::Status SendAll(int num_items) {
    const OutfeedSender sender = pair_->sender();
    const Tensor large = Bytes(kLargeBytes);
    absl::Status status;
    for (int i = 0; i < num_items && status.ok(); ++i) {
      status = i % 10 == 9 ? sender.SendAndWait(kLargeId, {Number(i), large})
                           : sender.SendAndWait(kSmallId, {Number(i)});
    }
    return status;
  }

  DefaultEnvironment environment_{/*num_workers=*/2};
  const std::unique_ptr<LocalGroup> group_ =
      *LocalGroup::Create(environment_.get(), 1, 2);
  int64_t step_id_ = 3;
  int num_received_ = 0;  // The callbacks', and the test's when they ended.
  int num_wrong_ = 0;
  std::function<absl::Status(int num_received)> callback_;
  std::unique_ptr<RemoteOutfeedPair> pair_;
};

TEST_F(RemoteOutfeedConcurrencyTest, DeliversInOrderThroughAFewBytes) {
  Start(/*max_queued_bytes=*/20);
  EXPECT_THAT(SendAll(kNumItems), IsOk());
  EXPECT_THAT(pair_->Shutdown(), IsOk());
  EXPECT_EQ(num_received_, kNumItems);
  EXPECT_EQ(num_wrong_, 0);
  EXPECT_THAT(pair_->AwaitExportEnd(), IsOk());
}

TEST_F(RemoteOutfeedConcurrencyTest, AnEndInTheMiddleEndsTheSender) {
  const std::function<void()> ends[] = {
      [this] { pair_->Shutdown().IgnoreError(); },
      [this] { pair_->DestroyExport(); },
      [this] {
        group_->manager().FindOrCreate(step_id_)->StartAbort(
            absl::AbortedError("stopped"));
      }};
  InstanceKey instance_key = 1;
  for (const auto& end : ends) {
    for (int round = 0; round < 20; ++round) {
      Start(/*max_queued_bytes=*/1000, ++instance_key);
      std::thread sending([this] {
        EXPECT_THAT(SendAll(/*num_items=*/100'000'000), Not(IsOk()));
      });
      end();
      sending.join();
      pair_.reset();
      EXPECT_EQ(num_wrong_, 0);
      group_->manager().Cleanup(step_id_++);
    }
  }
}

TEST_F(RemoteOutfeedConcurrencyTest, AFailedCallbackEndsTheSender) {
  callback_ = [](int num_received) {
    return num_received < 1000 ? absl::OkStatus()
                               : absl::DataLossError("no disk");
  };
  Start(/*max_queued_bytes=*/1000);
  EXPECT_THAT(
      SendAll(/*num_items=*/100'000'000),
      StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("no disk")));
  EXPECT_EQ(num_received_, 1000);
  EXPECT_EQ(num_wrong_, 0);
}

}  // namespace remote_outfeed_concurrency_test
}  // namespace tutti
