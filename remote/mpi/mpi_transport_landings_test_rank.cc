// Tests of transfers over a CUDA-aware MPI directly into landings; part of the
// program of mpi_transport_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "remote/fake_services.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/mpi/mpi_transport_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

using testing::AnyOf;

// Landing in host memory, in the place of a device's.
class FakeLanding final : public DeviceLanding {
 public:
  explicit FakeLanding(size_t num_bytes) : bytes_(num_bytes) {}
  absl::Span<std::byte> bytes() const override {
    return absl::MakeSpan(bytes_);
  }

 private:
  mutable std::vector<std::byte> bytes_;
};

// Has landings for two of three parts.
class LandingReceiver final : public Receiver {
 public:
  explicit LandingReceiver(size_t num_bytes) : bytes_(num_bytes) {}

  std::shared_ptr<DeviceLanding> Land(int32_t /*id*/,
                                      size_t num_bytes) override {
    EXPECT_FALSE(is_reported_);
    if (++num_asked_ % 3 == 0) return nullptr;
    auto landing = std::make_shared<FakeLanding>(num_bytes);
    landings_.push_back(landing);
    return landing;
  }
  absl::Status OnLanded(int32_t /*id*/, size_t offset,
                        std::shared_ptr<DeviceLanding> part) override {
    EXPECT_EQ(part, landings_[num_landed_++].lock());
    return Take(offset, part->bytes());
  }
  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> part) override {
    ++num_others_;
    return Take(offset, part);
  }
  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery /*delivery*/) override {
    status_ = std::move(status);
    is_reported_ = true;
    had_landings_ = has_landings();
    reported_.DecrementCount();
  }

  // Blocks until all bytes have come, or the transfer has failed.
  absl::Status Wait() {
    reported_.Wait();
    return status_;
  }

  // Call after Wait().
  const std::vector<std::byte>& bytes() const { return bytes_; }
  int num_requested() const { return num_asked_; }
  size_t num_landed() const { return num_landed_; }
  size_t num_others() const { return num_others_; }

  // Return whether a landing exists: at OnDelivery(), and now.
  bool had_landings() const { return had_landings_; }
  bool has_landings() const {
    return absl::c_any_of(
        landings_, [](const auto& landing) { return !landing.expired(); });
  }

 private:
  absl::Status Take(size_t offset, absl::Span<const std::byte> part) {
    EXPECT_FALSE(is_reported_);
    absl::c_copy(part, bytes_.begin() + static_cast<ptrdiff_t>(offset));
    return absl::OkStatus();
  }

  std::vector<std::byte> bytes_;
  std::vector<std::weak_ptr<DeviceLanding>> landings_;
  int num_asked_ = 0;
  size_t num_landed_ = 0;
  size_t num_others_ = 0;
  bool is_reported_ = false;
  bool had_landings_ = false;
  BlockingCounter reported_{1};
  absl::Status status_;
};

TEST_F(MpiTransportTest, SaysFromHowManyBytesOnItWritesToDevices) {
  EXPECT_EQ(transport_->least_device_bytes(),
            Mode().is_cuda_aware ? kMaxInlineBytes + 1 : kNoDeviceBytes);
}

TEST_F(MpiTransportTest, ChunksComeToLandingsWhereMpiIsCudaAware) {
  int tag = 0;
  for (const size_t num_chunks : {1, 2, 3, 20}) {
    const size_t num_bytes = num_chunks * kChunkBytes - 7;
    const std::vector<std::byte> bytes = Pattern(num_bytes, rank());
    WaitingSender sender;
    LandingReceiver receiver(num_bytes);
    table_.Provide(KeyOf(++tag), {.bytes = bytes, .sender = &sender});
    Request(next(), tag, receiver, num_bytes);
    EXPECT_THAT(receiver.Wait(), IsOk());
    EXPECT_THAT(sender.Wait(), IsOk());
    EXPECT_TRUE(receiver.bytes() == Pattern(num_bytes, next()));
    const size_t num_others =
        Mode().is_cuda_aware ? num_chunks / 3 : num_chunks;
    EXPECT_EQ(receiver.num_others(), num_others);
    EXPECT_EQ(receiver.num_landed(), num_chunks - num_others);
    EXPECT_FALSE(receiver.has_landings());
  }
}

TEST_F(MpiTransportTest, FewBytesComeToNoLanding) {
  const std::vector<std::byte> bytes = Pattern(kMaxInlineBytes, rank());
  WaitingSender sender;
  LandingReceiver receiver(bytes.size());
  table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
  Request(next(), 1, receiver, bytes.size());
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == Pattern(bytes.size(), next()));
  EXPECT_EQ(receiver.num_requested(), 0);
}

// OnDelivery() runs, and the receiver may go, while MPI may still write there.
TEST_F(MpiTransportTest, LandingsOfACancelledRequestLastUntilMpiIsDone) {
  for (int round = 0; round < 6; ++round) {
    const std::vector<std::byte> bytes = Pattern(20 * kChunkBytes, rank());
    const int tag = 600 + round;
    WaitingSender sender;
    LandingReceiver receiver(bytes.size());
    if (round % 2 == 0) {
      table_.Provide(KeyOf(tag), {.bytes = bytes, .sender = &sender});
    }
    Meet();  // From here on a request gets all of its bytes or none.
    Request(next(), tag, receiver, bytes.size());
    CancelRequest(transport_->transfers(), KeyOf(tag),
                  absl::AbortedError("not now"));
    const absl::Status status = receiver.Wait();
    EXPECT_EQ(receiver.num_requested() > 0, Mode().is_cuda_aware);
    if (round % 2 == 0) {  // All bytes may have come before.
      EXPECT_THAT(status, AnyOf(IsOk(), StatusIs(absl::StatusCode::kAborted,
                                                 "not now")));
    } else {  // Without an offer MPI still waits for it.
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, "not now"));
      EXPECT_EQ(receiver.had_landings(), Mode().is_cuda_aware);
    }
    Meet();
    transport_->Shutdown();
    EXPECT_FALSE(receiver.has_landings());
    if (round % 2 == 0) sender.Wait().IgnoreError();  // Either result is right.
    SetUp();
  }
}

}  // namespace
}  // namespace tutti
