// The tests of requests over MPI that are cancelled, of the same program as
// mpi_transport_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "framework/base/last_holder.h"
#include "proto/mpi.pb.h"
#include "remote/fake_services.h"
#include "remote/mpi/messages/mpi_wire.h"
#include "remote/mpi/mpi_pulls.h"
#include "remote/mpi/mpi_transport_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
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
  // The tags of those can be used again.
  const std::vector<std::byte> bytes = Pattern(3 * kChunkBytes, rank());
  WaitingLender lender;
  WaitingBorrower borrower(bytes.size());
  Request(next(), 2, borrower, bytes.size());
  table_.Provide(KeyOf(2), {.bytes = bytes, .lender = &lender});
  EXPECT_THAT(borrower.Wait(), IsOk());
  EXPECT_THAT(lender.Wait(), IsOk());
  EXPECT_TRUE(borrower.bytes() == Pattern(bytes.size(), next()));
}

TEST_F(MpiTransportTest, ACancelledRequestIsAwaitedUntilItsTaskHasEndedIt) {
  for (const size_t num_bytes : {size_t{4}, 3 * kChunkBytes}) {
    WaitingBorrower waiting(num_bytes);
    Request(next(), 1, waiting, num_bytes);
    WaitingBorrower cancelled(num_bytes);
    Request(next(), 2, cancelled, num_bytes);
    transport_->transfers().Cancel(next(), KeyOf(2), &cancelled,
                                   absl::AbortedError("not now"));
    EXPECT_FALSE(cancelled.Wait().ok());
    for (const int64_t step : {KeyOf(2).exec.step, KeyOf(2).exec.step + 1}) {
      BlockingCounter ended(1);
      transport_->transfers().AwaitCancelled(step,
                                             [&] { ended.DecrementCount(); });
      ended.Wait();
    }
    transport_->transfers().Cancel(next(), KeyOf(1), &waiting,
                                   absl::AbortedError("nor this"));
    EXPECT_FALSE(waiting.Wait().ok());
    Meet();
  }
}

TEST_F(MpiTransportTest, NobodyAwaitsCancelledRequestsOfATaskThatIsLost) {
  int num_ended = 0;
  const auto hold = [&](MpiPulls& pulls) {
    pulls.HoldWithCancelled(KeyOf(1).exec.step,
                            std::make_shared<LastHolder>([&] { ++num_ended; }));
  };
  const absl::Status reason = absl::UnavailableError("lost");
  WaitingBorrower borrower(4);
  OnMpiThread([&] {
    MpiPulls pulls(&Mpi().engine(), [](int, const proto::MpiMessage&) {});
    pulls.Request(next(), KeyOf(1), {.num_bytes = 4, .borrower = &borrower});
    hold(pulls);
    EXPECT_EQ(num_ended, 1);  // It goes on.
    pulls.Cancel(KeyOf(1), &borrower, reason);
    hold(pulls);
    EXPECT_EQ(num_ended, 1);
    pulls.CancelAllOf(next(), reason);
    EXPECT_EQ(num_ended, 2);
    hold(pulls);
    EXPECT_EQ(num_ended, 3);
  });
  EXPECT_EQ(borrower.Wait(), reason);
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
  EXPECT_FALSE(second.Wait().ok());  // By that, or because it came second.
}

}  // namespace
}  // namespace tutti
