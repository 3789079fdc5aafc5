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

class RecordedRequest : public ServedRequest {
 public:
  using ServedRequest::ServedRequest;

  std::optional<absl::Status> end;

 private:
  void OnAnswer(absl::Status status, const Delivery&) override {
    EXPECT_FALSE(end.has_value());
    end = std::move(status);
  }
};

// Requests of a group that this process does not know before KnowGroup().
class ServedRequestsTest : public testing::Test {
 protected:
  std::shared_ptr<RecordedRequest> Serve(int task, int tag) {
    const BufKey key = {
        .exec = {.generation = 1, .step = 5, .group = 7}, .tag = tag, .to = 1};
    auto request = std::make_shared<RecordedRequest>(
        ControlCaller{.task = task}, key, RecvRequest{.num_bytes = 4});
    requests_->Serve(requests_, request);
    return request;
  }

  // Rank i is in task i.
  void KnowGroup() {
    auto group = std::make_shared<CollGroupParams>();
    group->key = 7;
    group->generation = 1;
    for (int task : {0, 1}) {
      group->members.push_back({{.name = {"worker", 0, task, "CPU", 0}}});
    }
    group->cancellation = std::make_shared<Cancellation>();
    groups_->Add(group);
    requests_->OnGroupChange(7);
  }

  SimulatedEnvironment simulated_{/*seed=*/1};
  BufRendezvous rendezvous_{BufRendezvous::kNoBound};
  const std::shared_ptr<GroupDirectory> groups_ =
      std::make_shared<GroupDirectory>();
  const std::shared_ptr<ServedRequests> requests_ =
      std::make_shared<ServedRequests>(
          ServedRequests::Options{
              .cluster = {.addresses = {"a:1", "b:1"}, .this_task = 0},
              .clock = simulated_.get().clock,
              .groups = groups_,
              .max_waiting = kMaxWaiting,
              .early_lifetime = kLifetime},
          &rendezvous_);
};

TEST_F(ServedRequestsTest, AnUnknownGroupEndsTheRequestAfterTheLifetime) {
  const auto request = Serve(1, 0);
  EXPECT_EQ(requests_->size(), 1u);
  EXPECT_FALSE(request->end.has_value());
  simulated_.Advance(kLifetime);
  EXPECT_THAT(request->end, testing::Optional(IsNotFound("has not heard")));
  EXPECT_EQ(requests_->size(), 0u);
}

TEST_F(ServedRequestsTest, AWithdrawnRequestGetsTheReasonOnce) {
  for (const bool is_early : {true, false}) {
    const auto request = Serve(1, 0);
    if (!is_early) KnowGroup();
    requests_->Withdraw(request, absl::CancelledError("gone"));
    EXPECT_THAT(request->end,
                testing::Optional(StatusIs(StatusCode::kCancelled, "gone")));
    requests_->Withdraw(request, absl::CancelledError("again"));
    EXPECT_EQ(requests_->size(), 0u);
  }
  simulated_.Advance(kLifetime);
}

TEST_F(ServedRequestsTest, AWaitingKeyIsRefused) {
  const auto early = Serve(1, 0);
  KnowGroup();
  const auto second = Serve(1, 0);
  EXPECT_THAT(second->end,
              testing::Optional(IsAlreadyExists("asked for twice")));
  EXPECT_FALSE(early->end.has_value());
}

TEST_F(ServedRequestsTest, AnEndedGenerationEndsItsRequests) {
  KnowGroup();
  const auto request = Serve(1, 0);
  groups_->End(7, 1, absl::UnavailableError("task 1 was lost"));
  requests_->OnGroupChange(7);
  EXPECT_THAT(
      request->end,
      testing::Optional(IsUnavailable("generation 1 of group 7 has ended")));
  EXPECT_EQ(rendezvous_.num_waiting(), 0u);
}

TEST_F(ServedRequestsTest, TheBoundCountsTheRequestsOfOneTask) {
  std::vector<std::shared_ptr<RecordedRequest>> of_one;
  for (size_t i = 0; i < kMaxWaiting + 1; ++i) {
    of_one.push_back(Serve(1, static_cast<int>(i)));
  }
  const auto of_other = Serve(0, 100);
  EXPECT_THAT(of_one[kMaxWaiting]->end,
              testing::Optional(IsResourceExhausted("already has 2")));
  EXPECT_FALSE(of_one[0]->end.has_value());
  EXPECT_FALSE(of_other->end.has_value());
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
