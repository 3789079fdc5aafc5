// Tests of transfers over MPI that read the sender's memory where permitted;
// part of the program of mpi_transport_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/mpi.pb.h"
#include "remote/fake_services.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/mpi/mpi_pulls.h"
#include "remote/mpi/mpi_transport_testing.h"
#include "remote/peer_memory.h"
#include "tests/doubles/forbid_system_call.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

using testing::HasSubstr;

// Runs once in a job, before all tests whose bytes must then be sent.
TEST_F(MpiTransportTest, WhatCannotBeReadAnyMoreIsSent) {
  if (!Mode().is_closed) return;
  constexpr size_t kNumBytes = 5 * kChunkBytes + 3;
  bool is_forbidden = false;
  HookedReceiver receiver(kNumBytes, [&](size_t num_received) {
    if (num_received == 2 * kMemoryBlockBytes) {
      is_forbidden =
          ForbidSystemCall(SYS_process_vm_readv);  // Runs on MPI's thread.
    }
  });
  const int other = (rank() + 2) % size();
  const std::vector<std::byte> bytes = Pattern(kNumBytes, rank());
  WaitingSender sender;
  EXPECT_EQ(Reads(other), !IsUnwilling(rank()) && !IsUnwilling(other));
  Request(other, 1, receiver, kNumBytes);
  table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
  EXPECT_THAT(receiver.bytes().Wait(), IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
  EXPECT_TRUE(is_forbidden);
  EXPECT_TRUE(receiver.bytes().bytes() == Pattern(kNumBytes, other));
}

TEST_F(MpiTransportTest, WhatIsReadComesWhereItGoes) {
  const std::vector<std::byte> bytes = Pattern((size_t{2} << 20) + 5, rank());
  WaitingSender sender;
  WaitingReceiver receiver(bytes.size());
  table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
  RequestInto(next(), 1, receiver);
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == Pattern(bytes.size(), next()));
  const auto hosts = *Mpi().hosts();
  const bool is_near = rank() == next() ||
                       (Mode().shares_memory && hosts[rank()] == hosts[next()]);
  EXPECT_EQ(receiver.num_in_place(),
            is_near && !Mode().is_cuda_aware && !Mode().is_closed ? 3 : 0);
}

// Unreadable leases look like cleared ones.
TEST_F(MpiTransportTest, ALeaseThatCannotBeReadAnyMoreEndsTheRequest) {
  // Reads its own memory, like that of others, if permitted.
  if (Mode().is_closed || !Reads(rank())) return;
  const std::vector<std::byte> bytes = Pattern(3 * kChunkBytes, rank());
  WaitingReceiver receiver(bytes.size());
  std::vector<proto::MpiMessage> sent;
  OnMpiThread([&] {
    MpiPulls pulls(&Mpi().engine(), [&](int task, proto::MpiMessage message) {
      EXPECT_EQ(task, rank());
      sent.push_back(std::move(message));
    });
    pulls.Request(rank(), KeyOf(1),
                  {.num_bytes = bytes.size(),
                   .dtype = DType::kUint8,
                   .receiver = &receiver});
    ASSERT_EQ(sent.size(), 1);
    proto::MpiPlace place;
    place.set_id(sent[0].pull().id());
    place.set_address(reinterpret_cast<uintptr_t>(bytes.data()));
    place.set_num_bytes(bytes.size());
    place.set_lease_address(0);  // No process has memory there.
    place.set_lease(1);
    pulls.OnPlace(rank(), place);
    while (pulls.HandOnNext()) {
    }
  });
  EXPECT_THAT(receiver.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("cannot be read any more")));
  ASSERT_EQ(sent.size(), 2);
  EXPECT_EQ(sent[1].cancel_pull().id(), sent[0].pull().id());
}

TEST_F(MpiTransportTest, BytesThatWereTakenBackBeforeTheEndAreNoResult) {
  const auto hosts = *Mpi().hosts();
  if (size() == 1 || !Mode().shares_memory || Mode().is_cuda_aware ||
      Mode().is_closed || hosts[0] != hosts[1]) {
    return;  // Nothing is read in this mode.
  }
  const int is_read = Mpi().engine().NewMessageTag();
  const int may_go_on = Mpi().engine().NewMessageTag();
  constexpr size_t kNumBlocks = 3;
  const std::vector<std::byte> bytes(kNumBlocks * kMemoryBlockBytes);
  WaitingSender sender;
  HookedReceiver receiver(bytes.size(), [&](size_t num_received) {
    if (num_received < bytes.size()) return;
    MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/0, is_read,
             Mpi().engine().messages());
    MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/0, may_go_on,
             Mpi().engine().messages(), MPI_STATUS_IGNORE);
  });
  if (rank() == 1) Request(0, 1, receiver, bytes.size());
  if (rank() == 0) {
    table_.WaitForRequests(1);
    table_.Provide(KeyOf(1), {.bytes = bytes, .sender = &sender});
    OnMpiThread([&] {
      MPI_Recv(nullptr, 0, MPI_BYTE, /*source=*/1, is_read,
               Mpi().engine().messages(), MPI_STATUS_IGNORE);
    });
    transport_->Shutdown();
    EXPECT_THAT(sender.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("has shut down")));
    OnMpiThread([&] {
      MPI_Send(nullptr, 0, MPI_BYTE, /*dest=*/1, may_go_on,
               Mpi().engine().messages());
    });
  }
  if (rank() == 1) {
    EXPECT_THAT(
        receiver.bytes().Wait(),
        StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has shut down")));
  }
  transport_->Shutdown();
  SetUp();
}

}  // namespace
}  // namespace tutti
