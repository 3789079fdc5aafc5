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
    WaitingBorrower borrower(num_bytes);
    Request(next(), 1, borrower, num_bytes);
    WaitingBorrower other(num_bytes);
    transport_->transfers().Cancel(next(), KeyOf(1), &other,
                                   absl::AbortedError("not yours"));
    transport_->transfers().Cancel(next(), KeyOf(1), &borrower,
                                   absl::AbortedError("not now"));
    EXPECT_THAT(borrower.Wait(),
                StatusIs(absl::StatusCode::kAborted, "not now"));
  }
  // Tags of cancelled requests can be used again.
  const std::vector<std::byte> bytes = Pattern(3 * kChunkBytes, rank());
  WaitingLender lender;
  WaitingBorrower borrower(bytes.size());
  Request(next(), 2, borrower, bytes.size());
  table_.Provide(KeyOf(2), {.bytes = bytes, .lender = &lender});
  EXPECT_THAT(borrower.Wait(), IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
  EXPECT_TRUE(borrower.bytes() == Pattern(bytes.size(), next()));
}

TEST_F(MpiTransportTest, EachOfTwoThatAskForOneKeyMayCancel) {
  WaitingBorrower first(4), second(4);
  Request(next(), 1, first, 4);
  Request(next(), 1, second, 4);
  transport_->transfers().Cancel(next(), KeyOf(1), &first,
                                 absl::AbortedError("not now"));
  EXPECT_THAT(first.Wait(), StatusIs(absl::StatusCode::kAborted, "not now"));
  transport_->transfers().Cancel(next(), KeyOf(1), &second,
                                 absl::AbortedError("nor now"));
  EXPECT_FALSE(second.Wait().ok());  // Cancelled, or came second.
}

}  // namespace
}  // namespace tutti
