#ifndef TUTTI_OUTFEED_REMOTE_REMOTE_OUTFEED_TESTING_H_
#define TUTTI_OUTFEED_REMOTE_REMOTE_OUTFEED_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/outfeed_testing.h"
#include "outfeed/remote/stream_link.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {

inline constexpr uint32_t kNumberId = 1;
inline constexpr uint32_t kPairId = 2;
inline constexpr uint32_t kLargeId = 3;
inline constexpr uint32_t kEmptyId = 4;
inline constexpr uint32_t kHugeId = 5;
inline constexpr int64_t kLargeBytes = 100'000;
inline constexpr int64_t kHugeBytes = int64_t{3} << 20;

// Item that the callback received.
struct ReceivedItem {
  uint32_t id = 0;
  std::vector<size_t> sizes;
  int32_t first_number = 0;  // First four bytes.
};

// Makes a tensor that begins with `number`.
inline Tensor Numbered(int64_t num_bytes, int32_t number) {
  Tensor tensor = Bytes(num_bytes);
  std::memset(tensor.mutable_data(), number & 0x7f, tensor.size_bytes());
  std::memcpy(tensor.mutable_data(), &number, sizeof(number));
  return tensor;
}

// Both ends in this process, in a group of its two devices, without threads.
class RemoteOutfeedTest : public testing::Test {
 protected:
  explicit RemoteOutfeedTest(LocalJob::Options options = {})
      : job_(WithTwoDevices(std::move(options))) {
    for (const auto& registry : {sender_registry_, receiver_registry_}) {
      EXPECT_THAT(registry->Register(kNumberId, {Int32()}), IsOk());
    }
    const ArraySpec large{DType::kUint8, TensorShape::Vector(kLargeBytes)};
    const ArraySpec huge{DType::kUint8, TensorShape::Vector(kHugeBytes)};
    OutfeedRegistry& registry = *sender_registry_;
    EXPECT_THAT(registry.Register(kPairId, {Int32(), large}), IsOk());
    EXPECT_THAT(registry.Register(kLargeId, {large}), IsOk());
    EXPECT_THAT(registry.Register(kEmptyId, {}), IsOk());
    EXPECT_THAT(registry.Register(kHugeId, {huge}), IsOk());
  }

  ~RemoteOutfeedTest() override {
    Disconnect();
    job_.environment().RunAll();
  }

  static LocalJob::Options WithTwoDevices(LocalJob::Options options) {
    options.devices_per_task = 2;
    return options;
  }
  static ArraySpec Int32() { return {DType::kInt32, TensorShape()}; }

  Device& sending_device() { return *job_.devices()[1]; }

  OutfeedConnection Connection(int rank) {
    return {.executor = job_.manager().FindOrCreate(step_id_),
            .device = job_.devices()[static_cast<size_t>(rank)],
            .group_key = 9,
            .instance_key = instance_key_};
  }

  void ConnectExport() {
    OutfeedExport::Connect(
        {.connection = Connection(StreamLink::kSender),
         .registry = sender_registry_,
         .ended = [this](absl::Status status) { ended_ = std::move(status); }},
        [this](auto connected) {
          export_status_ = connected.status();
          if (connected.ok()) export_ = *std::move(connected);
        });
  }
  void ConnectRemote() {
    RemoteOutfeedDevice::Connect(
        {.connection = Connection(StreamLink::kReceiver),
         .registry = receiver_registry_},
        [this](auto connected) {
          ASSERT_THAT(connected, IsOk());
          remote_ = *std::move(connected);
        });
  }
  void Connect() {
    ConnectExport();
    ConnectRemote();
    job_.environment().RunAll();
    ASSERT_THAT(export_status_, IsOk());
    ASSERT_NE(remote_, nullptr);
  }

  // Connects both ends for the next instance, as if nothing had come before.
  void ConnectAgain() {
    ++instance_key_;
    items_.clear();
    ended_.reset();
    Connect();
  }
  void Disconnect() {
    receiver_.reset();
    export_.reset();
    job_.environment().RunAll();
    remote_.reset();
  }

  void CreateReceiver(int64_t max_queued_bytes = int64_t{256} << 20) {
    OutfeedReceiver::Options options{.devices = {remote_.get()},
                                     .max_queued_bytes = max_queued_bytes,
                                     .environment = job_.environment().get(),
                                     .registry = receiver_registry_};
    options.callback = [this](Device& device, uint32_t id,
                              absl::Span<Tensor> arrays) {
      EXPECT_EQ(device.full_name(), sending_device().full_name());
      ReceivedItem item{.id = id};
      for (const Tensor& array : arrays) {
        item.sizes.push_back(array.size_bytes());
      }
      if (!arrays.empty()) {
        std::memcpy(&item.first_number, arrays[0].data(), 4);
      }
      items_.push_back(std::move(item));
      return on_item_ ? on_item_() : absl::OkStatus();
    };
    receiver_ = *OutfeedReceiver::Create(std::move(options));
  }
  void StartReceiver(int64_t max_queued_bytes = int64_t{256} << 20) {
    CreateReceiver(max_queued_bytes);
    ASSERT_THAT(receiver_->Start(), IsOk());
    job_.environment().RunAll();
  }
  void Shutdown() {
    receiver_->Shutdown(shutdown_.Done());
    job_.environment().RunAll();
  }

  OutfeedSender sender() {
    return *OutfeedSender::Create(sending_device(), sender_registry_);
  }
  void SendNumber(int32_t number, StatusCallback done = nullptr) {
    sender().Send(kNumberId, {Number(number)}, std::move(done));
  }
  void SendRaw(std::vector<Tensor> arrays, StatusCallback done = nullptr) {
    sender().channel().TransferToOutfeed(absl::MakeSpan(arrays),
                                         std::move(done));
  }

  // Sends numbers until a send waits.
  int FillUp() {
    Outcome outcome;
    int num_sent = 0;
    do {
      outcomes_.push_back(std::make_unique<Outcome>());
      SendNumber(num_sent++, outcomes_.back()->Done());
    } while (outcomes_.back()->num_calls == 1 && num_sent < 1'000'000);
    return num_sent;
  }

  std::vector<int32_t> Numbers() const {
    std::vector<int32_t> numbers;
    for (const ReceivedItem& item : items_)
      numbers.push_back(item.first_number);
    return numbers;
  }

  void ExpectSendersGet(const testing::Matcher<absl::Status>& matcher) {
    Outcome outcome;
    SendNumber(1, outcome.Done());
    EXPECT_THAT(outcome.status, matcher);
    EXPECT_EQ(outcome.num_calls, 1);
  }

  LocalJob job_;
  int64_t step_id_ = 7;
  InstanceKey instance_key_ = 1;
  std::shared_ptr<OutfeedRegistry> sender_registry_ =
      std::make_shared<OutfeedRegistry>();
  std::shared_ptr<OutfeedRegistry> receiver_registry_ =
      std::make_shared<OutfeedRegistry>();
  absl::Status export_status_ = absl::UnknownError("it waits");
  std::optional<absl::Status> ended_;
  std::vector<ReceivedItem> items_;
  std::function<absl::Status()> on_item_;
  Outcome shutdown_;
  std::vector<std::unique_ptr<Outcome>> outcomes_;
  std::unique_ptr<OutfeedExport> export_;
  std::unique_ptr<RemoteOutfeedDevice> remote_;
  std::unique_ptr<OutfeedReceiver> receiver_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_REMOTE_REMOTE_OUTFEED_TESTING_H_
