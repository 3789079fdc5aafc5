#include "remote/grpc/transfers/loan_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/grpc_transport.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace loan_watch_test {

class IgnoringSender final : public Sender {
 public:
  void OnReleased(int32_t /*id*/, absl::Status /*status*/) override {}
};

class LoanWatchTest : public testing::Test {
 protected:
  LoanWatchTest() { options_.environment = simulated_.get(); }
  ~LoanWatchTest() override {
    simulated_.RunAll();
    context_.in_flight().Wait();
  }

  std::shared_ptr<Loan> MakeLoan() {
    return std::make_shared<Loan>(Delivery{.sender = &sender_},
                                  simulated_.get().queue,
                                  &context_.in_flight());
  }
  void Watch(std::shared_ptr<Loan> loan) {
    WatchSend(std::move(loan), &context_, "peer", [this] { ++num_cancels_; });
  }
  void PassGrace() { simulated_.Advance(options_.cancel_grace); }

  SimulatedEnvironment simulated_{/*seed=*/1};
  GrpcTransportOptions options_;
  IgnoringSender sender_;
  std::vector<std::string> broken_;
  int num_cancels_ = 0;
  SendContext context_{
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

}  // namespace loan_watch_test
}  // namespace tutti
