// Tests of cancelled requests over MPI; part of the program of
// mpi_transport_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "remote/fake_services.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/mpi/mpi_transport_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

TEST_F(MpiTransportTest, ARequestThatIsCancelledIsWithdrawn) {
  for (const size_t num_bytes : {size_t{4}, 3 * kChunkBytes}) {
    WaitingReceiver receiver(num_bytes);
    Request(next(), 1, receiver, num_bytes);
    CancelRequest(transport_->transfers(), KeyOf(0),
                  absl::AbortedError("another"));
    CancelRequest(transport_->transfers(), KeyOf(1),
                  absl::AbortedError("not now"));
    EXPECT_THAT(receiver.Wait(),
                StatusIs(absl::StatusCode::kAborted, "not now"));
  }
  // Tags of cancelled requests can be used again.
  const std::vector<std::byte> bytes = Pattern(3 * kChunkBytes, rank());
  WaitingSender sender;
  WaitingReceiver receiver(bytes.size());
  Request(next(), 2, receiver, bytes.size());
  table_.Provide(KeyOf(2), {.bytes = bytes, .sender = &sender});
  EXPECT_THAT(receiver.Wait(), IsOk());
  EXPECT_THAT(sender.Wait(), IsOk());
  EXPECT_TRUE(receiver.bytes() == Pattern(bytes.size(), next()));
}

}  // namespace
}  // namespace tutti
