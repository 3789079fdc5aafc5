// Tests of transports over MPI that shut down, and of processes taken for lost;
// part of the program of mpi_transport_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "remote/fake_services.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/mpi/mpi_transport_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

using testing::HasSubstr;

// Each process both pulls and serves when it shuts down.
TEST_F(MpiTransportTest, ShuttingDownInTheMiddleOfATransferFreesBothSides) {
  for (int round = 0; round < 5; ++round) {
    const std::vector<std::byte> bytes = Pattern(60 * kChunkBytes, rank());
    WaitingSender sender;
    WaitingReceiver receiver(bytes.size());
    table_.Provide(KeyOf(500 + round), {.bytes = bytes, .sender = &sender});
    Request(next(), 500 + round, receiver, bytes.size());
    receiver.WaitForPart();
    Meet();  // From here on the other side pulls too.
    transport_->Shutdown();
    const absl::Status status = receiver.Wait();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status) ||
                absl::IsUnavailable(status))
        << status;
    sender.Wait().IgnoreError();  // Either result is right.
    SetUp();
  }
}

// Blocks MPI's thread from its first part on, until rank 0 sends a message with
// `tag`.
class StuckReceiver final : public Receiver {
 public:
  explicit StuckReceiver(int tag) : tag_(tag) {}

  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> /*part*/) override {
    if (offset == 0) {
      MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/0, tag_,
               Mpi().engine().messages(), MPI_STATUS_IGNORE);
    }
    return absl::OkStatus();
  }
  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery /*delivery*/) override {
    status_ = std::move(status);
    reported_.DecrementCount();
  }

  // Blocks until all bytes have come, or the transfer has failed.
  absl::Status Wait() {
    reported_.Wait();
    return status_;
  }

 private:
  const int tag_;
  BlockingCounter reported_{1};
  absl::Status status_;
};

// Rank 0 says goodbye while rank 1 stands still.
TEST_F(MpiTransportTest, WhatMpiHasIsReadAlsoAfterALateGoodbye) {
  if (size() == 1) return;
  const int tag = Mpi().engine().NewMessageTag();
  const std::vector<std::byte> bytes(60 * kChunkBytes);
  WaitingSender sender;
  StuckReceiver receiver(tag);
  if (rank() == 1) Request(0, 1, receiver, bytes.size());
  if (rank() == 0) {
    table_.WaitForRequests(1);
    table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
    transport_->Shutdown();
    Mpi().engine().Post([tag] {
      MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/1, tag,
               Mpi().engine().messages());
    });
    EXPECT_THAT(sender.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("has shut down")));
  }
  if (rank() == 1) {
    EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("has shut down")));
  }
  transport_->Shutdown();
  SetUp();
}

TEST_F(MpiTransportTest, WhatIsAskedOfATaskThatShutsDownEnds) {
  if (size() == 1) return;
  // Rank 0 goes first, while all others request something from it.
  WaitingReceiver receiver(4);
  if (rank() != 0) {
    Request(0, 100 + rank(), receiver, 4);
    Meet();
    EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("has shut down")));
    EXPECT_THAT(
        CallAndWait(transport_->control(), 0, StepRequest(1)),
        StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has shut down")));
    // Report silence, as a health check does. Rank 0 is not lost: it has ended
    // well.
    transport_->OnSilent(0, absl::UnavailableError("silent"));
    CallAndWait(transport_->control(), rank(), StepRequest(1)).IgnoreError();
    EXPECT_EQ(Mpi().engine().WhoIsLost(), "");
  } else {
    Meet();
  }
  transport_->Shutdown();
  EXPECT_THAT(CallAndWait(transport_->control(), rank(), StepRequest(1)),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
  SetUp();  // Replaces the transport.
}

TEST_F(MpiTransportTest, WhoSaysGoodbyeIsNotLost) {
  if (size() == 1) return;
  // Let the goodbye arrive that precedes this test: it may have come with the
  // answer that ended SetUp().
  OnMpiThread([] {});
  Mpi().engine().CallLost(next(), absl::UnavailableError("silent"));
  EXPECT_EQ(Mpi().engine().WhoIsLost(),
            absl::StrCat("rank ", next(), " (silent)"));
  Meet();
  transport_->Shutdown();
  SetUp();
  Meet();  // Earlier messages have arrived.
  EXPECT_EQ(Mpi().engine().WhoIsLost(), "");
}

// A process that refuses this one will end too.
TEST_F(MpiTransportTest, OnlyWhoIsSilentKeepsMpiFromWaitingForIt) {
  const absl::Status why = absl::UnavailableError("why");
  const auto who_is_lost = [&] {
    CallAndWait(transport_->control(), rank(), StepRequest(1)).IgnoreError();
    return Mpi().engine().WhoIsLost();
  };
  transport_->Drop({rank(), 1}, why);
  EXPECT_EQ(who_is_lost(), "");
  transport_->OnSilent(rank(), why);
  EXPECT_EQ(who_is_lost(), absl::StrCat("rank ", rank(), " (why)"));
  Mpi().engine().CallFound(rank());
}

}  // namespace
}  // namespace tutti
