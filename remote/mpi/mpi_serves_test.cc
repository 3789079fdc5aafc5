#include "remote/mpi/mpi_serves.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "framework/control_channel.h"
#include "framework/peer_access.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/mpi/mpi_runtime.h"
#include "remote/mpi/mpi_wire.h"
#include "remote/transfer_channel.h"
#include "tests/simulated_environment.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Keeps the last ask, and tells nobody by itself.
class KeepingService final : public TransferService {
 public:
  void Serve(const ControlCaller& /*caller*/, const BufKey& /*key*/,
             const Ask& ask) override {
    borrower = ask.borrower;
  }
  void Withdraw(const BufKey& /*key*/, const Borrower* /*borrower*/,
                absl::Status /*reason*/) override {}

  Borrower* borrower = nullptr;
};

class RecordingLender final : public Lender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status status) override {
    released.push_back(std::move(status));
  }

  std::vector<absl::Status> released;
};

// A pull of 4 bytes by task 1 that the service has not answered. MPI is not
// there: so few bytes travel in a message.
class MpiServesTest : public ::testing::Test {
 protected:
  MpiServesTest() {
    PullRequest request;
    request.ask.num_bytes = bytes_.size();
    proto::MpiPull message;
    message.set_id(7);
    EncodePull(request, message);
    serves_->OnPull({.task = 1}, message, &service_, absl::OkStatus());
  }

  void Lend() {
    service_.borrower->OnDelivery(0, absl::OkStatus(),
                                  {.bytes = bytes_, .lender = &lender_});
  }

  // What waits for MPI's thread.
  void RunPosted() {
    for (Work& work : runtime_->mailbox()->TakeAll()) std::move(work)();
  }

  const std::array<std::byte, 4> bytes_ = {};
  SimulatedEnvironment environment_{1};
  KeepingService service_;
  RecordingLender lender_;
  std::vector<proto::MpiMessage> sent_;
  std::optional<MpiRuntime> runtime_{
      MpiRuntime::Options{.environment = environment_.get()}};
  std::optional<MpiServes> serves_{MpiServes::Options{
      .runtime = &*runtime_, .send = [this](int /*task*/, auto message) {
        sent_.push_back(std::move(message));
      }}};
};

TEST_F(MpiServesTest, BytesAreSentOnMpisThreadAndGivenBack) {
  Lend();
  EXPECT_THAT(sent_, IsEmpty());
  RunPosted();
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].pulled().payload().size(), bytes_.size());
  EXPECT_THAT(lender_.released, ElementsAre(IsOk()));
  EXPECT_EQ(serves_->num_served(), 0u);
}

// A thread that has them in its hands may stand still as long as that.
TEST_F(MpiServesTest, WhatIsLentWhenMpiIsOverIsGivenBackAtOnce) {
  serves_->StopAllOf(1, absl::UnavailableError("has shut down"));
  serves_->ForgetUntold();
  EXPECT_EQ(serves_->num_served(), 0u);
  runtime_->mailbox()->Close();
  serves_.reset();
  runtime_.reset();
  Lend();
  EXPECT_THAT(lender_.released,
              ElementsAre(StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr("has shut down"))));
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(MpiServesTest, WhatIsLentBetweenTheEndsIsGivenBackOnMpisThread) {
  serves_->StopAllOf(1, absl::UnavailableError("has shut down"));
  serves_->ForgetUntold();
  Lend();
  EXPECT_THAT(lender_.released, IsEmpty());
  RunPosted();
  EXPECT_THAT(lender_.released,
              ElementsAre(StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr("has shut down"))));
  EXPECT_THAT(sent_, IsEmpty());
}

}  // namespace
}  // namespace tutti
