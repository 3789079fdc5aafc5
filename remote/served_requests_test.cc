#include "remote/served_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace served_requests_test {

using absl::StatusCode;
using testing::HasSubstr;

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
  ASSERT_TRUE(request.end.has_value());
  EXPECT_THAT(*request.end,
              StatusIs(StatusCode::kNotFound, HasSubstr("has not heard")));
  EXPECT_EQ(requests_->size(), 0u);
}

TEST_F(ServedRequestsTest, AWithdrawnRequestGetsTheReasonOnce) {
  EndOfRequest request;
  EndOfRequest other;
  Serve(1, 0, request);
  requests_->Withdraw(KeyOf(0), &other, absl::CancelledError("not his"));
  EXPECT_FALSE(request.end.has_value());
  requests_->Withdraw(KeyOf(0), &request, absl::CancelledError("gone"));
  ASSERT_TRUE(request.end.has_value());
  EXPECT_THAT(*request.end, StatusIs(StatusCode::kCancelled, "gone"));
  simulated_.Advance(kLifetime);
}

TEST_F(ServedRequestsTest, AWaitingKeyIsRefused) {
  EndOfRequest first;
  EndOfRequest second;
  Serve(1, 0, first);
  Serve(1, 0, second);
  ASSERT_TRUE(second.end.has_value());
  EXPECT_THAT(*second.end, StatusIs(StatusCode::kAlreadyExists,
                                    HasSubstr("asked for twice")));
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
  ASSERT_TRUE(of_one[kMaxWaiting].end.has_value());
  EXPECT_THAT(*of_one[kMaxWaiting].end, StatusIs(StatusCode::kResourceExhausted,
                                                 HasSubstr("already has 2")));
  EXPECT_FALSE(of_one[0].end.has_value());
  EXPECT_FALSE(of_other.end.has_value());
  simulated_.Advance(kLifetime);
}

}  // namespace served_requests_test
}  // namespace tutti
