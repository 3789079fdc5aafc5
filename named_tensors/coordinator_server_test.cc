#include "named_tensors/coordinator_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/control/wire_codec.h"
#include "tests/cluster/spoilt_messages.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace coordinator_server_test {

using ::testing::ElementsAre;

constexpr int kNumRanks = 3;

struct Answer {
  int num_answers = 0;
  ControlAnswer answer = absl::UnknownError("not answered");
  std::shared_ptr<Cancellation> withdrawn = std::make_shared<Cancellation>();
};

class CoordinatorServerTest : public testing::Test {
 protected:
  void SetUp() override { Restart(); }

  void Restart(absl::Duration stall_deadline = absl::InfiniteDuration()) {
    server_ = CoordinatorServer::Create(
        {.cluster = {.addresses = {"a:1", "b:1", "c:1"}},
         .clock = environment_.get().clock,
         .settings = {.stall_deadline = stall_deadline,
                      .stalled =
                          [this](const StalledTensor& tensor) {
                            stalled_.push_back(tensor.name);
                          }},
         .begun = [this] { ++num_begun_; }});
  }

  std::shared_ptr<Answer> Request(int task,
                                  const proto::ControlRequest& request,
                                  uint64_t process = 1) {
    const auto answer = std::make_shared<Answer>();
    server_->Handle({task, process}, request, answer->withdrawn,
                    [answer](ControlAnswer given) {
                      ++answer->num_answers;
                      answer->answer = std::move(given);
                    });
    return answer;
  }
  std::shared_ptr<Answer> Await(int task, uint64_t after) {
    proto::ControlRequest request;
    request.mutable_await_decisions()->set_after(after);
    return Request(task, request);
  }

  // Makes a message with all fields set.
  static proto::ControlRequest Submit(const std::string& name,
                                      uint64_t number = 1) {
    proto::ControlRequest request;
    proto::SubmitTensors& submit = *request.mutable_submit_tensors();
    submit.set_number(number);
    submit.set_first_request(number);
    submit.set_name_head(name.substr(0, 1));
    proto::TensorRequest& one = *submit.add_requests();
    one.set_name(name.substr(1));
    one.set_collective(0);
    one.set_dtype(static_cast<int>(DType::kInt64));
    one.add_shape(2);
    one.set_merge_op("sum");
    return request;
  }
  static proto::ControlRequest EndRequest(
      absl::string_view reason = "a good reason") {
    proto::ControlRequest request;
    proto::EndDecisions& end = *request.mutable_end_decisions();
    *end.mutable_reason() = EncodeError(absl::AbortedError(reason));
    end.set_cancels_runs(true);
    return request;
  }

  SimulatedEnvironment environment_{1};
  int num_begun_ = 0;
  std::vector<std::string> stalled_;
  std::shared_ptr<CoordinatorServer> server_;
};

TEST_F(CoordinatorServerTest, TellsEachRankOfItsOwnRequests) {
  const auto first = Await(1, 0);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    EXPECT_EQ(first->num_answers, 0);
    EXPECT_THAT(Request(rank, Submit("xyz"))->answer, IsOk());
  }
  EXPECT_EQ(num_begun_, 1);
  ASSERT_EQ(first->num_answers, 1);
  ASSERT_THAT(first->answer, IsOk());
  const proto::DecisionsReply& reported = first->answer->decisions();
  EXPECT_EQ(reported.first_number(), 1u);
  ASSERT_EQ(reported.decisions_size(), 1);
  EXPECT_THAT(reported.decisions(0).requests(), ElementsAre(1));
  EXPECT_FALSE(reported.decisions(0).has_error());
  // The server repeats the decision until the rank acknowledges it.
  EXPECT_EQ(Await(1, 0)->answer->decisions().decisions_size(), 1);
  EXPECT_EQ(Await(1, 1)->num_answers, 0);
  EXPECT_THAT(Await(1, 0)->answer,
              IsInvalidArgument("after is 0; wanted 1 to 1"));
}

TEST_F(CoordinatorServerTest, AMessageThatComesAgainCountsOnce) {
  EXPECT_THAT(Request(1, Submit("x"))->answer, IsOk());
  EXPECT_THAT(Request(1, Submit("x"))->answer, IsOk());
  EXPECT_THAT(Request(1, Submit("x", 2))->answer, IsAlreadyExists("\"x\""));
  EXPECT_THAT(Request(1, Submit("x", 7))->answer,
              IsInvalidArgument("wanted 3 and 3"));
}

TEST_F(CoordinatorServerTest, AnotherProcessDoesNotGoOnWhereTheFirstWas) {
  EXPECT_THAT(Request(1, Submit("x"))->answer, IsOk());
  for (const uint64_t number : {1, 2}) {
    EXPECT_THAT(Request(1, Submit("y", number), /*process=*/2)->answer,
                IsFailedPrecondition("has asked as process 1"));
  }
  EXPECT_TRUE(server_->HasHeardOf({1, 1}));
  EXPECT_FALSE(server_->HasHeardOf({1, 2}));
}

TEST_F(CoordinatorServerTest, ARankWaitsWithOneCall) {
  const auto first = Await(2, 0);
  const auto second = Await(2, 0);
  EXPECT_THAT(first->answer, IsAborted("another"));
  EXPECT_EQ(second->num_answers, 0);
  first->withdrawn->Cancel(absl::CancelledError("late"));
  EXPECT_EQ(second->num_answers, 0);
  second->withdrawn->Cancel(absl::CancelledError("given up"));
  EXPECT_THAT(second->answer, IsCancelled("given up"));
}

TEST_F(CoordinatorServerTest, TheEndIsToldOnceToAllWhoWaitAndToWhoeverAsks) {
  const auto waiting = Await(1, 0);
  EXPECT_THAT(Request(2, EndRequest())->answer, IsOk());
  server_->End(absl::InternalError("later"), DecidedRuns::kFinish);
  for (const auto& answer : {waiting, Await(0, 0), Await(1, 0)}) {
    EXPECT_EQ(answer->num_answers, 1);
    ASSERT_THAT(answer->answer, IsOk());
    EXPECT_EQ(DecodeError(answer->answer->decisions().end()),
              absl::AbortedError("task 2 (c:1): a good reason"));
    EXPECT_TRUE(answer->answer->decisions().cancels_runs());
  }
  EXPECT_THAT(Request(0, Submit("x"))->answer, IsOk());
  EXPECT_FALSE(server_->is_in_use());
}

TEST_F(CoordinatorServerTest, WhoseTheEndIsIsSaidOnce) {
  const std::string reason = "task 2 (c:1): a good reason";
  EXPECT_THAT(Request(2, EndRequest(reason))->answer, IsOk());
  EXPECT_EQ(DecodeError(Await(1, 0)->answer->decisions().end()),
            absl::AbortedError(reason));
}

// The earlier process received a decision that the new process does not know.
TEST_F(CoordinatorServerTest, ATaskThatStartedAgainHearsWhyItHasEnded) {
  for (int rank = 0; rank < kNumRanks; ++rank) Request(rank, Submit("x"));
  const auto waiting = Await(1, 1);
  server_->End(absl::AbortedError("a good reason"), DecidedRuns::kFinish);
  EXPECT_FALSE(waiting->answer->decisions().cancels_runs());
  for (const uint64_t after : {0, 7}) {
    const auto again = Await(1, after);
    EXPECT_EQ(again->num_answers, 1);
    ASSERT_THAT(again->answer, IsOk());
    const proto::DecisionsReply& reported = again->answer->decisions();
    EXPECT_EQ(reported.first_number(), after + 1);
    EXPECT_EQ(reported.decisions_size(), 0);
    EXPECT_EQ(DecodeError(reported.end()), absl::AbortedError("a good reason"));
    EXPECT_TRUE(reported.cancels_runs());
  }
}

TEST_F(CoordinatorServerTest, WhoWaitsIsAnsweredWhenItGoes) {
  const auto waiting = Await(1, 0);
  server_.reset();
  EXPECT_EQ(waiting->num_answers, 1);
}

// The first tensor has been reported and waits for its limit. The second is due
// long before that.
TEST_F(CoordinatorServerTest, ATensorIsReportedInTimeWhileAnotherHasALimit) {
  Restart(/*stall_deadline=*/absl::Minutes(10));
  const auto reported = Await(1, 0);
  Request(1, Submit("first"));
  environment_.Advance(absl::Seconds(100));
  EXPECT_THAT(stalled_, ElementsAre("first"));
  Request(1, Submit("second", 2));
  environment_.Advance(absl::Seconds(59));
  EXPECT_THAT(stalled_, ElementsAre("first"));
  environment_.Advance(absl::Seconds(2));
  EXPECT_THAT(stalled_, ElementsAre("first", "second"));

  environment_.Advance(absl::Seconds(600 - 161 - 1));
  EXPECT_EQ(reported->num_answers, 0);
  environment_.Advance(absl::Seconds(2));
  ASSERT_EQ(reported->num_answers, 1);
  EXPECT_THAT(reported->answer->decisions().decisions(0).requests(),
              ElementsAre(1));
  const auto told_later = Await(1, 1);
  environment_.Advance(absl::Seconds(98));
  EXPECT_EQ(told_later->num_answers, 0);
  environment_.Advance(absl::Seconds(2));
  EXPECT_EQ(told_later->num_answers, 1);
  EXPECT_THAT(stalled_, ElementsAre("first", "second"));
}

TEST_F(CoordinatorServerTest, WithoutAReaderAReportIsALineOnStderr) {
  server_ = CoordinatorServer::Create(
      {.cluster = {.addresses = {"a:1", "b:1", "c:1"}},
       .clock = environment_.get().clock});
  Request(1, Submit("xyz"));
  testing::internal::CaptureStderr();
  environment_.Advance(absl::Seconds(61));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tutti: tensor \"xyz\" has waited for 1m: ranks that have "
            "asked for it: [1]; ranks that have not: [0, 2]\n");
}

TEST_F(CoordinatorServerTest, TensorsThatStallTogetherShareALineOnStderr) {
  server_ = CoordinatorServer::Create(
      {.cluster = {.addresses = {"a:1", "b:1", "c:1"}},
       .clock = environment_.get().clock});
  Request(1, Submit("a"));
  for (int i = 0; i < 9; ++i) {
    environment_.Advance(absl::Milliseconds(100));
    Request(1, Submit(absl::StrCat("b", i), i + 2));
  }
  Request(2, Submit("b4"));
  testing::internal::CaptureStderr();
  environment_.Advance(absl::Minutes(2));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tutti: tensor \"a\" has waited for 1m: ranks that have asked for "
            "it: [1]; ranks that have not: [0, 2]\n"
            "tutti: 8 tensors, \"b0\", \"b1\", \"b2\", \"b3\", \"b5\", "
            "\"b6\", \"b7\", \"b8\", have waited for up to 1m3.65s: ranks "
            "that have asked for them: [1]; ranks that have not: [0, 2]\n"
            "tutti: tensor \"b4\" has waited for 1m3.25s: ranks that have "
            "asked for it: [1, 2]; ranks that have not: [0]\n");
}

TEST_F(CoordinatorServerTest, ASpoiltMessageEndsInAStatusAndTheOthersGoOn) {
  const std::set<absl::StatusCode> expected = {
      absl::StatusCode::kOk, absl::StatusCode::kInvalidArgument,
      absl::StatusCode::kAlreadyExists, absl::StatusCode::kResourceExhausted};
  std::vector<proto::ControlRequest> requests = {Submit("xyz"), EndRequest()};
  requests[0].mutable_submit_tensors()->set_slots("\x01");
  requests.emplace_back().mutable_await_decisions()->set_after(1);
  requests.push_back(requests[0]);
  proto::TensorRequest& gather =
      *requests.back().mutable_submit_tensors()->mutable_requests(0);
  gather.set_collective(1);
  gather.clear_merge_op();
  int num_refused = 0;
  for (const proto::ControlRequest& request : requests) {
    for (const SpoiltMessage& spoilt : SpoilEachField(request)) {
      Restart();
      // Makes slot 0 known.
      for (int rank = 0; rank < kNumRanks; ++rank)
        Request(rank, Submit("known"));
      auto good = static_cast<const proto::ControlRequest&>(*spoilt.message);
      if (good.has_submit_tensors()) {
        good.mutable_submit_tensors()->set_number(
            good.submit_tensors().number() + 1);
        good.mutable_submit_tensors()->set_first_request(
            good.submit_tensors().first_request() + 1);
      }
      const auto answer = Request(1, good);
      const auto& status = answer->answer.status();
      if (answer->num_answers == 0) {
        EXPECT_TRUE(good.has_await_decisions()) << spoilt.what;
      } else {
        EXPECT_EQ(answer->num_answers, 1) << spoilt.what;
        EXPECT_TRUE(expected.contains(status.code()))
            << spoilt.what << ": " << status;
        EXPECT_LT(status.message().size(), 4096u) << spoilt.what;
        if (!status.ok()) ++num_refused;
      }
      EXPECT_THAT(Request(2, Submit("other", 2))->answer, IsOk())
          << spoilt.what;
      const auto waiting = Await(2, 1);
      server_->End(absl::CancelledError("over"), DecidedRuns::kFinish);
      EXPECT_TRUE(waiting->answer.ok()) << spoilt.what;
    }
  }
  EXPECT_GT(num_refused, 40);
}

}  // namespace coordinator_server_test
}  // namespace tutti
