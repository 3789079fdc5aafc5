#include "remote/served_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "remote/early_cancels.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"

namespace tutti {
namespace served_requests_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kMaxWaiting = 2;
constexpr absl::Duration kLifetime = absl::Seconds(30);

class EndOfRequest : public Receiver {
 public:
  void OnDelivery(int32_t, absl::Status status, Delivery) override {
    EXPECT_FALSE(end.has_value());
    end = std::move(status);
  }
  std::optional<absl::Status> end;
};

// Requests of groups that this process does not know.
class ServedRequestsTest : public testing::Test {
 protected:
  void Serve(int task, int tag, EndOfRequest& request) {
    requests_->Serve(requests_, {.task = task}, KeyOf(tag),
                     {.num_bytes = 4, .receiver = &request});
  }
  static BufKey KeyOf(int tag) {
    return {.exec = {.generation = 1, .step = 5, .group = 7}, .tag = tag};
  }

  SimulatedEnvironment simulated_{/*seed=*/1};
  BufRendezvous rendezvous_{BufRendezvous::kNoBound};
  const std::shared_ptr<ServedRequests> requests_ =
      std::make_shared<ServedRequests>(
          ServedRequests::Options{
              .cluster = {.addresses = {"a:1", "b:1"}, .this_task = 0},
              .clock = simulated_.get().clock,
              .groups = std::make_shared<GroupDirectory>(),
              .max_waiting = kMaxWaiting,
              .early_lifetime = kLifetime},
          &rendezvous_);
};

TEST_F(ServedRequestsTest, AnUnknownGroupEndsTheRequestAfterTheLifetime) {
  EndOfRequest request;
  Serve(1, 0, request);
  EXPECT_EQ(requests_->size(), 1u);
  EXPECT_FALSE(request.end.has_value());
  simulated_.Advance(kLifetime);
  EXPECT_THAT(request.end, testing::Optional(IsNotFound("has not heard")));
  EXPECT_EQ(requests_->size(), 0u);
}

TEST_F(ServedRequestsTest, AWithdrawnRequestGetsTheReasonOnce) {
  EndOfRequest request;
  EndOfRequest other;
  Serve(1, 0, request);
  requests_->Withdraw(KeyOf(0), &other, absl::CancelledError("not his"));
  EXPECT_FALSE(request.end.has_value());
  requests_->Withdraw(KeyOf(0), &request, absl::CancelledError("gone"));
  EXPECT_THAT(request.end,
              testing::Optional(StatusIs(StatusCode::kCancelled, "gone")));
  simulated_.Advance(kLifetime);
}

TEST_F(ServedRequestsTest, AWaitingKeyIsRefused) {
  EndOfRequest first;
  EndOfRequest second;
  Serve(1, 0, first);
  Serve(1, 0, second);
  EXPECT_THAT(second.end,
              testing::Optional(IsAlreadyExists("asked for twice")));
  EXPECT_FALSE(first.end.has_value());
  simulated_.Advance(kLifetime);
}

TEST_F(ServedRequestsTest, TheBoundCountsTheRequestsOfOneTask) {
  EndOfRequest of_one[kMaxWaiting + 1];
  EndOfRequest of_other;
  for (size_t i = 0; i < kMaxWaiting + 1; ++i) {
    Serve(1, static_cast<int>(i), of_one[i]);
  }
  Serve(0, 100, of_other);
  EXPECT_THAT(of_one[kMaxWaiting].end,
              testing::Optional(IsResourceExhausted("already has 2")));
  EXPECT_FALSE(of_one[0].end.has_value());
  EXPECT_FALSE(of_other.end.has_value());
  simulated_.Advance(kLifetime);
}

constexpr absl::Time kStart = absl::UnixEpoch();

EarlyCancels::EarlyCancel Of(int task, GroupKey group, uint64_t execution,
                             int64_t step = 0) {
  return {.caller = {.task = task},
          .exec = {.step = step, .group = group, .execution = execution},
          .reason = absl::AbortedError("")};
}

// Returns the numbers of the group's kept executions.
std::vector<uint64_t> ExecutionsOf(const EarlyCancels& cancels,
                                   GroupKey group) {
  std::vector<uint64_t> executions;
  for (const auto& cancel : cancels.OfGroup(group)) {
    executions.push_back(cancel.exec.execution);
  }
  return executions;
}

TEST(EarlyCancelsTest, AreFoundByTheirGroupInTheOrderInWhichTheyCame) {
  EarlyCancels cancels(10, kLifetime);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 5), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 8, 6), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 7, 3), kStart));
  EXPECT_THAT(ExecutionsOf(cancels, 7), ElementsAre(5, 3));
  EXPECT_THAT(ExecutionsOf(cancels, 9), IsEmpty());
}

TEST(EarlyCancelsTest, AreRefusedPastTheirNumberUntilTheOldestIsTooOld) {
  EarlyCancels cancels(2, kLifetime);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 1), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 7, 2), kStart + absl::Seconds(1)));
  EXPECT_FALSE(cancels.Add(Of(1, 7, 3), kStart + kLifetime));
  const absl::Time later = kStart + kLifetime + absl::Nanoseconds(1);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 4), later));
  EXPECT_FALSE(cancels.Add(Of(1, 7, 5), later));
  EXPECT_THAT(ExecutionsOf(cancels, 7), ElementsAre(2, 4));
}

TEST(EarlyCancelsTest, OneIsRemovedOfItsCallerAlone) {
  EarlyCancels cancels(10, kLifetime);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 5), kStart));
  EXPECT_TRUE(cancels.Add(Of(2, 7, 5), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 7, 6), kStart));
  cancels.Remove(Of(1, 7, 5));
  EXPECT_THAT(ExecutionsOf(cancels, 7), ElementsAre(5, 6));
}

TEST(EarlyCancelsTest, AllOfAStepAreRemoved) {
  EarlyCancels cancels(10, kLifetime);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 5, /*step=*/1), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 7, 5, /*step=*/2), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 8, 5, /*step=*/1), kStart));
  cancels.RemoveStep(1);
  EXPECT_EQ(cancels.size(), 1u);
  EXPECT_THAT(ExecutionsOf(cancels, 7), ElementsAre(5));
}

}  // namespace served_requests_test
}  // namespace tutti
