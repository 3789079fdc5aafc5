#include "resolvers/membership/cluster_leave.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace cluster_leave_test {

// Keeps all calls, and thus their callers, which keep the channel: the tests
// answer the calls.
class KeepingChannel final : public ControlChannel {
 public:
  void Call(int task, proto::ControlRequest request,
            ControlCallOptions /*options*/, ControlDone done) override {
    EXPECT_TRUE(request.has_goodbye());
    calls_.emplace_back(task, std::move(done));
  }

  void Answer(int task) {
    for (auto& [called, done] : calls_) {
      if (called == task && done != nullptr) {
        std::exchange(done, nullptr)(proto::ControlReply());
      }
    }
  }

  void Forget() { calls_.clear(); }

 private:
  std::vector<std::pair<int, ControlDone>> calls_;
};

class ClusterLeaveTest : public testing::Test {
 protected:
  ~ClusterLeaveTest() override { channel_->Forget(); }

  // Leaves as task 0 of three.
  void Leave() {
    leave_->Leave(environment_.get().clock->Now() + absl::Seconds(2),
                  [this](absl::Status status) { ended_ = std::move(status); });
  }

  // Restarts task 1 while this task leaves, in vain.
  void LeaveWhileOneComesBack() {
    leave_->OnFound({1, 5});
    Leave();
    leave_->OnLost({1, 5});
    leave_->OnFound({1, 6});
    environment_.Advance(absl::Seconds(3));
    ASSERT_TRUE(ended_.has_value());
    EXPECT_THAT(*ended_, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                  testing::HasSubstr("task 2 (c:1) did not")));
    ended_.reset();
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  const std::shared_ptr<KeepingChannel> channel_ =
      std::make_shared<KeepingChannel>();
  const std::shared_ptr<ClusterLeave> leave_ = std::make_shared<ClusterLeave>(
      ClusterLeave::Options{.cluster = {.addresses = {"a:1", "b:1", "c:1"}},
                            .environment = environment_.get(),
                            .channel = channel_});
  std::optional<absl::Status> ended_;
};

TEST_F(ClusterLeaveTest, EndsWhenAllHaveSaidAndHeardGoodbye) {
  Leave();
  leave_->OnGoodbye({1, 6});
  leave_->OnGoodbye({2, 5});
  channel_->Answer(1);
  EXPECT_FALSE(ended_.has_value());
  channel_->Answer(2);
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, WaitsForNoAnswerOfOneThatIsLost) {
  leave_->OnLost({1, 5});
  Leave();
  leave_->OnGoodbye({2, 5});
  channel_->Answer(2);
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, OneThatIsLostMeanwhileIsNotWaitedFor) {
  Leave();
  leave_->OnGoodbye({2, 5});
  channel_->Answer(2);
  EXPECT_FALSE(ended_.has_value());
  leave_->OnLost({1, 5});
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, OneThatCameBackIsWaitedFor) {
  leave_->OnLost({1, 5});
  leave_->OnFound({1, 6});
  Leave();
  leave_->OnGoodbye({2, 5});
  channel_->Answer(2);
  EXPECT_FALSE(ended_.has_value());
  channel_->Answer(1);
  leave_->OnGoodbye({1, 6});
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, AWordOfLossThatIsOvertakenLosesNobodyElse) {
  leave_->OnFound({1, 5});
  leave_->OnFound({1, 6});
  Leave();
  leave_->OnLost({1, 5});  // Process 5 is lost before the other one is found.
  leave_->OnGoodbye({2, 5});
  channel_->Answer(2);
  EXPECT_FALSE(ended_.has_value());
  leave_->OnLost({1, 6});
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, OneWhoseLossIsToldFirstIsNotWaitedFor) {
  leave_->OnLost({1, 5});
  leave_->OnFound({1, 5});
  Leave();
  leave_->OnGoodbye({2, 5});
  channel_->Answer(2);
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, OneThatCameBackMeanwhileIsWaitedForTheNextTime) {
  LeaveWhileOneComesBack();
  Leave();
  for (const int task : {1, 2}) channel_->Answer(task);
  leave_->OnGoodbye({2, 5});
  EXPECT_FALSE(ended_.has_value());
  leave_->OnLost({1, 6});
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, ItsGoodbyeBetweenTheTwoCounts) {
  LeaveWhileOneComesBack();
  leave_->OnGoodbye({1, 6});
  Leave();
  for (const int task : {1, 2}) channel_->Answer(task);
  leave_->OnGoodbye({2, 5});
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, TheGoodbyeOfTheOneBeforeHasNobodyElseWaitedFor) {
  leave_->OnFound({1, 5});
  Leave();
  leave_->OnFound({1, 6});
  for (const int task : {1, 2}) {
    leave_->OnGoodbye({task, 5});
    channel_->Answer(task);
  }
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, OneThatComesBackBeforeItsLossIsToldIsNotWaitedFor) {
  leave_->OnFound({1, 5});
  Leave();
  leave_->OnFound({1, 6});
  leave_->OnLost({1, 5});
  leave_->OnGoodbye({2, 5});
  channel_->Answer(2);
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, AGoodbyeThatOvertakesTheWordOfItsProcessCounts) {
  leave_->OnGoodbye({1, 6});
  leave_->OnFound({1, 6});
  Leave();
  leave_->OnGoodbye({2, 5});
  for (const int task : {1, 2}) channel_->Answer(task);
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, AGoodbyeIsThatOfItsProcessAlone) {
  leave_->OnFound({1, 5});
  leave_->OnLost({1, 5});
  leave_->OnFound({1, 6});
  leave_->OnGoodbye({1, 5});  // Goodbye comes late.
  Leave();
  leave_->OnGoodbye({2, 5});
  for (const int task : {1, 2}) channel_->Answer(task);
  EXPECT_FALSE(ended_.has_value());
  leave_->OnGoodbye({1, 6});
  EXPECT_EQ(ended_, absl::OkStatus());
}

// Loss of the former process is reported last.
TEST_F(ClusterLeaveTest, WhoHasSaidGoodbyeIsNotWaitedForAfterTheLossOfAnother) {
  leave_->OnFound({1, 5});
  leave_->OnFound({1, 6});
  Leave();
  for (const int task : {1, 2}) {
    leave_->OnGoodbye({task, 6});
    channel_->Answer(task);
  }
  EXPECT_FALSE(ended_.has_value());
  leave_->OnLost({1, 5});
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, ASecondOneIsRefusedWhileTheFirstWaits) {
  Leave();
  absl::Status second;
  leave_->Leave(absl::InfiniteFuture(),
                [&](absl::Status status) { second = std::move(status); });
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kFailedPrecondition,
                               testing::HasSubstr("leaving already")));
  EXPECT_FALSE(ended_.has_value());
  for (int task : {1, 2}) {
    leave_->OnGoodbye({task, 5});
    channel_->Answer(task);
  }
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(ClusterLeaveTest, EndsWithTheReasonNowAndLater) {
  const absl::Status reason = absl::CancelledError("enough");
  Leave();
  leave_->End(reason);
  EXPECT_EQ(ended_, reason);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  ended_.reset();
  Leave();
  EXPECT_EQ(ended_, reason);
}

TEST_F(ClusterLeaveTest, TheDeadlineNamesWhoHasNotSaidGoodbye) {
  Leave();
  channel_->Answer(1);
  leave_->OnGoodbye({2, 5});
  channel_->Answer(2);
  environment_.Advance(absl::Seconds(3));
  ASSERT_TRUE(ended_.has_value());
  EXPECT_THAT(*ended_, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                testing::HasSubstr("task 1 (b:1) did not")));
}

}  // namespace cluster_leave_test
}  // namespace tutti
