// Tests what streams are made of: loans, parts and queued records.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "remote/grpc/connection/in_flight.h"
#include "remote/grpc/transfers/loan.h"
#include "remote/grpc/transfers/part_feeder.h"
#include "remote/grpc/transfers/transfer_sender.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "remote/peer_memory.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace transfer_parts_test {

using testing::ElementsAre;

// Reads the lease when its bytes are released.
class LookingSender final : public Sender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status /*status*/) override {
    lease_then = *lease;
  }

  const uint64_t* lease = nullptr;
  uint64_t lease_then = ~uint64_t{0};
};

TEST(LoanTest, ALeaseHoldsUntilJustBeforeTheLenderIsTold) {
  SimulatedEnvironment simulated(/*seed=*/1);
  InFlight in_flight;
  LookingSender sender;
  auto loan = std::make_shared<Loan>(Delivery{.sender = &sender},
                                     simulated.get().queue, &in_flight);
  const MemoryPlace place = loan->Lease(*simulated.get().random);
  EXPECT_NE(place.lease, 0);
  std::memcpy(&sender.lease, &place.lease_address, sizeof(sender.lease));
  loan.reset();
  EXPECT_EQ(*sender.lease, place.lease);
  simulated.RunAll();
  EXPECT_EQ(sender.lease_then, 0);
  in_flight.Wait();
}

class IgnoringSender final : public Sender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status /*status*/) override {}
};

class LoanWatchTest : public testing::Test {
 protected:
  LoanWatchTest() { options_.environment = simulated_.get(); }
  ~LoanWatchTest() override {
    simulated_.RunAll();
    sender_side_.Wait();
  }

  std::shared_ptr<Loan> MakeLoan() {
    return std::make_shared<Loan>(Delivery{.sender = &sender_},
                                  simulated_.get().queue,
                                  &sender_side_.in_flight());
  }
  void Watch(std::shared_ptr<Loan> loan) {
    sender_side_.WatchSend(std::move(loan), "peer", [this] { ++num_cancels_; });
  }
  void PassGrace() { simulated_.Advance(options_.cancel_grace); }

  SimulatedEnvironment simulated_{/*seed=*/1};
  GrpcTransportOptions options_;
  IgnoringSender sender_;
  std::vector<std::string> broken_;
  int num_cancels_ = 0;
  TransferSender sender_side_{
      &options_, /*service=*/nullptr,
      [this](const std::string& peer) { broken_.push_back(peer); }};
};

TEST_F(LoanWatchTest, ALoanThatIsReleasedInTimeCancelsNothing) {
  Watch(MakeLoan());
  EXPECT_EQ(simulated_.num_alarms(), 0u);
  auto held = MakeLoan();
  Watch(held);
  held.reset();
  PassGrace();
  PassGrace();
  EXPECT_EQ(num_cancels_, 0);
  EXPECT_TRUE(broken_.empty());
}

TEST_F(LoanWatchTest, ALoanThatIsHeldCancelsTheStreamAndThenBreaksThePeer) {
  auto held = MakeLoan();
  Watch(held);
  PassGrace();
  EXPECT_EQ(num_cancels_, 1);
  EXPECT_TRUE(broken_.empty());
  PassGrace();
  EXPECT_EQ(num_cancels_, 1);
  EXPECT_EQ(broken_, std::vector<std::string>{"peer"});
}

TEST_F(LoanWatchTest, ALoanThatEndsWithTheStreamKeepsTheConnection) {
  auto held = MakeLoan();
  Watch(held);
  PassGrace();
  EXPECT_EQ(num_cancels_, 1);
  held.reset();
  PassGrace();
  EXPECT_TRUE(broken_.empty());
}

class Collector final : public Receiver {
 public:
  absl::Status OnPart(int32_t id, size_t offset,
                      absl::Span<const std::byte> part) override {
    if (id != 5 || offset != bytes.size()) {
      return absl::InternalError("wrong place");
    }
    bytes.insert(bytes.end(), part.begin(), part.end());
    sizes.push_back(part.size());
    return result;
  }
  void OnDelivery(int32_t, absl::Status, Delivery) override {}

  std::vector<std::byte> bytes;
  std::vector<size_t> sizes;
  absl::Status result;
};

// Feeds 0, 1, 2, ... in pieces of these sizes.
Collector Fed(DType dtype, const std::vector<size_t>& sizes) {
  Collector collector;
  PartFeeder feeder({.dtype = dtype, .receiver = &collector, .id = 5});
  std::byte next{0};
  for (const size_t size : sizes) {
    std::vector<std::byte> piece(size);
    for (std::byte& byte : piece) {
      byte = next;
      next = static_cast<std::byte>(std::to_integer<int>(next) + 1);
    }
    EXPECT_THAT(feeder.Feed(piece), IsOk());
  }
  return collector;
}

TEST(PartFeederTest, GivesWholeElementsWhereTheyLie) {
  EXPECT_THAT(Fed(DType::kFloat32, {8, 4, 16}).sizes, ElementsAre(8, 4, 16));
}

TEST(PartFeederTest, MendsElementsThatAreTorn) {
  EXPECT_THAT(Fed(DType::kFloat32, {6, 6}).sizes, ElementsAre(4, 4, 4));
  EXPECT_THAT(Fed(DType::kFloat64, {1, 1, 1, 1, 1, 1, 1, 1}).sizes,
              ElementsAre(8));
  EXPECT_THAT(Fed(DType::kFloat16, {1, 0, 4, 0, 1}).sizes,
              ElementsAre(2, 2, 2));
}

TEST(PartFeederTest, AllBytesComeInOrderHoweverTheyAreCut) {
  for (const DType dtype : kAllDTypes) {
    for (size_t piece = 1; piece < 20; ++piece) {
      const size_t total = 40;
      std::vector<size_t> sizes(total / piece, piece);
      sizes.push_back(total % piece);
      const Collector collector = Fed(dtype, sizes);
      ASSERT_EQ(collector.bytes.size(), total);
      for (size_t i = 0; i < total; ++i) {
        EXPECT_EQ(collector.bytes[i], static_cast<std::byte>(i));
      }
      for (const size_t size : collector.sizes) {
        EXPECT_EQ(size % SizeOf(dtype), 0);
      }
    }
  }
}

TEST(PartFeederTest, PassesOnTheBorrowersError) {
  Collector collector;
  collector.result = absl::DataLossError("no");
  PartFeeder feeder({.dtype = DType::kInt32, .receiver = &collector, .id = 5});
  const std::byte bytes[6] = {};
  EXPECT_THAT(feeder.Feed(bytes), StatusIs(absl::StatusCode::kDataLoss, "no"));
}

TEST(RecordQueueTest, RecordsShareAMessageUpToItsLargestSize) {
  constexpr size_t kMostRecords = kMaxRecordsBytes / kRecordBytes;
  RecordQueue queue;
  for (size_t i = 0; i < kMostRecords + 1; ++i) {
    queue.Add({.kind = RecordKind::kRead, .id = i});
  }
  EXPECT_EQ(queue.TakeMessage().size(), kMaxRecordsBytes);
  EXPECT_EQ(queue.TakeMessage().size(), kRecordBytes);
  EXPECT_TRUE(queue.empty());
}

TEST(RecordQueueTest, TheTextOfAStatusFollowsItsRecord) {
  RecordQueue queue;
  queue.Add({.kind = RecordKind::kCancel, .id = 1, .num_bytes = 4}, "late");
  queue.Add({.kind = RecordKind::kRead, .id = 2});
  const std::string message = queue.TakeMessage();
  ASSERT_EQ(message.size(), 2 * kRecordBytes + 4);
  EXPECT_EQ(message.substr(kRecordBytes, 4), "late");
}

}  // namespace transfer_parts_test
}  // namespace tutti
