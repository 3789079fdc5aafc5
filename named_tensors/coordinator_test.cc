#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/control/control_channel.h"
#include "framework/control/wire_codec.h"
#include "named_tensors/coordinator_codec.h"
#include "named_tensors/coordinator_server.h"
#include "named_tensors/decision_run.h"
#include "named_tensors/pending_tensors.h"
#include "named_tensors/rank_coordinator.h"
#include "named_tensors/tensor_request.h"
#include "tests/cluster/spoilt_messages.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"

namespace tutti {
namespace coordinator_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

  // Makes a message with all fields of a reduction set.
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
    one.set_final_op("last");
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
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Request(1, Submit("x", 2))->answer, IsAlreadyExists("\"x\""));
  }
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
  const auto reported_later = Await(1, 1);
  environment_.Advance(absl::Seconds(98));
  EXPECT_EQ(reported_later->num_answers, 0);
  environment_.Advance(absl::Seconds(2));
  EXPECT_EQ(reported_later->num_answers, 1);
  EXPECT_THAT(stalled_, ElementsAre("first", "second"));
}

// There is no reader of reports.
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
  requests[0].mutable_submit_tensors()->set_joins(true);
  requests.emplace_back().mutable_await_decisions()->set_after(1);
  requests.push_back(requests[0]);
  proto::TensorRequest& gather =
      *requests.back().mutable_submit_tensors()->mutable_requests(0);
  gather.set_collective(1);
  gather.clear_merge_op();
  gather.clear_final_op();
  requests.push_back(requests.back());
  proto::TensorRequest& broadcast =
      *requests.back().mutable_submit_tensors()->mutable_requests(0);
  broadcast.set_collective(static_cast<int>(CollectiveType::kBroadcast));
  broadcast.set_root(1);
  requests.push_back(requests.back());
  proto::TensorRequest& exchange =
      *requests.back().mutable_submit_tensors()->mutable_requests(0);
  exchange.set_collective(static_cast<int>(CollectiveType::kAllToAll));
  exchange.clear_root();
  for (const int64_t rows : {1, 0, 1}) exchange.add_send_rows(rows);
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

using Kind = proto::ControlRequest::KindCase;

// Channel that answers nothing.
class SilentChannel : public ControlChannel {
 public:
  void Call(int /*task*/, proto::ControlRequest request, ControlCallOptions,
            ControlDone done) override {
    kinds.push_back(request.kind_case());
    if (request.has_submit_tensors()) {
      when_submitted();
      submitted = std::move(done);
    } else if (request.has_await_decisions()) {
      decided = std::move(done);
    }
  }

  void AddWaiting(int change) override { num_waiting += change; }

  std::vector<Kind> kinds;  // Kinds of the calls so far.
  int num_waiting = 0;
  ControlDone submitted;  // Callback of the last call of either kind.
  ControlDone decided;
  std::function<void()> when_submitted = [] {};
};

// Fixture for rank one of two.
class CoordinatorTest : public testing::Test {
 protected:
  void SetUp() override { Restart(); }

  void Restart() {
    statuses_.clear();
    channel_ = std::make_shared<SilentChannel>();
    coordinator_ = RankCoordinator::Create(
        {.cluster = {.addresses = {"a:1", "b:1"}, .this_task = 1},
         .environment = environment_.get(),
         .device = std::make_shared<CpuDevice>(DeviceAttributes()),
         .channel = channel_,
         .executor = [] { return nullptr; },
         .present_process = [this](int) { return present_process_; }});
  }

  void Request(const std::string& name) {
    coordinator_->AllReduce(
        {.name = name,
         .input = *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(1)),
         .output = &output_},
        [this](absl::Status status) {
          statuses_.push_back(std::move(status));
        });
  }

  const absl::Status reason_ = absl::AbortedError("enough");
  SimulatedEnvironment environment_{1};
  uint64_t present_process_ = 5;  // Process of task 0.
  std::shared_ptr<SilentChannel> channel_;
  Tensor output_;
  std::vector<absl::Status> statuses_;
  std::shared_ptr<RankCoordinator> coordinator_;
};

TEST_F(CoordinatorTest, AnEndIsToldAlsoByWhoHasAskedForNothing) {
  coordinator_->End(reason_);
  EXPECT_THAT(channel_->kinds, ElementsAre(Kind::kEndDecisions));
  coordinator_->End(absl::InternalError("later"));
  coordinator_ = nullptr;
  EXPECT_THAT(channel_->kinds, ElementsAre(Kind::kEndDecisions));
}

// Messages are sent for events only, never by time.
TEST_F(CoordinatorTest, NothingIsSentWhileNothingHappens) {
  Request("x");
  environment_.RunAll();
  const std::vector<Kind> requested = channel_->kinds;
  EXPECT_THAT(requested, Contains(Kind::kSubmitTensors));
  environment_.Advance(absl::Hours(1));
  EXPECT_EQ(channel_->kinds, requested);
}

TEST_F(CoordinatorTest, TheChannelKnowsWhetherADecisionIsAwaited) {
  EXPECT_EQ(channel_->num_waiting, 0);
  for (const std::string name : {"x", "y"}) {
    Request(name);
    EXPECT_EQ(channel_->num_waiting, 1);
    std::exchange(channel_->submitted, nullptr)(proto::ControlReply());
  }
  for (const uint64_t number : {1, 2}) {
    EXPECT_EQ(channel_->num_waiting, 1);
    proto::ControlReply reply;
    proto::DecisionsReply& reported = *reply.mutable_decisions();
    reported.set_first_number(number);
    proto::Decision& decision = *reported.add_decisions();
    decision.add_requests(number);
    *decision.mutable_error() = EncodeError(reason_);
    std::exchange(channel_->decided, nullptr)(reply);
  }
  EXPECT_EQ(channel_->num_waiting, 0);
  Request("z");
  EXPECT_EQ(channel_->num_waiting, 1);
  coordinator_->End(reason_);
  EXPECT_EQ(channel_->num_waiting, 0);
}

TEST_F(CoordinatorTest, WhoHasAskedForNothingGoesAwayInSilence) {
  coordinator_->Retire(reason_);
  coordinator_ = nullptr;
  EXPECT_THAT(channel_->kinds, IsEmpty());
}

// The end comes from another thread while the first message is on its way.
TEST_F(CoordinatorTest, WhoEndsOrGoesAwayWhileItFirstAsksTellsTheOthers) {
  for (const bool goes_away : {false, true}) {
    Restart();
    channel_->when_submitted = [&] {
      goes_away ? coordinator_->Retire(reason_) : coordinator_->End(reason_);
    };
    Request("x");
    EXPECT_THAT(statuses_, ElementsAre(reason_));
    EXPECT_THAT(channel_->kinds, Contains(Kind::kEndDecisions));
  }
}

TEST_F(CoordinatorTest, ALateWordOfAnOldProcessEndsNothing) {
  present_process_ = 6;
  Request("x");
  coordinator_->OnTaskLost({0, 5}, reason_);
  EXPECT_THAT(statuses_, IsEmpty());
  coordinator_->OnTaskLost({0, 6}, reason_);
  EXPECT_THAT(statuses_, ElementsAre(reason_));
}

TEST_F(CoordinatorTest, WhoWasAskedUnheardOfMayBeTheOneThatIsLost) {
  present_process_ = 0;
  Request("x");
  present_process_ = 6;
  coordinator_->OnTaskLost({0, 5}, reason_);
  EXPECT_THAT(statuses_, ElementsAre(reason_));
}

TEST_F(CoordinatorTest, TheLossOfTheProcessThatWasAskedEndsAllThoughReplaced) {
  Request("x");
  present_process_ = 6;
  coordinator_->OnTaskLost({0, 5}, reason_);
  EXPECT_THAT(statuses_, ElementsAre(reason_));
}

TEST_F(CoordinatorTest, RankZeroEndsAllForAProcessThatIsThereOrHasAsked) {
  for (const ControlCaller lost : {ControlCaller{1, 5}, ControlCaller{1, 6}}) {
    const ClusterSpec cluster = {.addresses = {"a:1", "b:1"}};
    const auto server = CoordinatorServer::Create(
        {.cluster = cluster, .clock = environment_.get().clock});
    coordinator_ = RankCoordinator::Create(
        {.cluster = cluster,
         .environment = environment_.get(),
         .device = std::make_shared<CpuDevice>(DeviceAttributes()),
         .channel = channel_,
         .server = server,
         .executor = [] { return nullptr; },
         .present_process = [](int) { return 6; }});
    Request("x");
    environment_.RunAll();
    ASSERT_TRUE(server->is_in_use());
    coordinator_->OnTaskLost({1, 5}, reason_);
    EXPECT_TRUE(server->is_in_use());
    proto::ControlRequest request;
    request.mutable_submit_tensors()->set_number(1);
    request.mutable_submit_tensors()->set_first_request(1);
    server->Handle({1, 5}, request, nullptr, [](const ControlAnswer&) {});
    coordinator_->OnTaskLost(lost, reason_);
    EXPECT_FALSE(server->is_in_use());
  }
}

PendingTensorPtr Pending(const std::string& name, int64_t num_elements = 4) {
  const auto pending = std::make_shared<PendingTensor>();
  pending->request = {.name = name,
                      .shape = TensorShape::Vector(num_elements),
                      .merge_op = "sum"};
  return pending;
}

proto::Decision Decided(std::vector<uint64_t> requests, uint32_t slot) {
  proto::Decision decision;
  for (const uint64_t number : requests) decision.add_requests(number);
  decision.set_instance(1);
  decision.add_slots(slot);
  return decision;
}

TEST(PendingTensorsTest, ANameIsTakenUntilItLeaves) {
  PendingTensors pending({.rank = 1, .num_ranks = 2, .task = 1});
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  EXPECT_THAT(pending.Add(Pending("x")), IsAlreadyExists("rank 1"));
  pending.TakeMessage();
  const auto decided = pending.TakeDecided(Decided({1}, 1));
  ASSERT_THAT(decided, IsOk());
  EXPECT_EQ(pending.Add(Pending("x")).code(), absl::StatusCode::kAlreadyExists);
  pending.Leave(*decided);
  EXPECT_THAT(pending.Add(Pending("x")), IsOk());
  EXPECT_THAT(pending.TakeUndecided(), SizeIs(1));
  EXPECT_THAT(pending.Add(Pending("x")), IsOk());
}

TEST(PendingTensorsTest, WhatIsKnownIsAskedForByABitUnlessItChanged) {
  PendingTensors pending({.rank = 1, .num_ranks = 2, .task = 1});
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  EXPECT_THAT(pending.TakeMessage().requests(), SizeIs(1));
  pending.Leave(*pending.TakeDecided(Decided({1}, 3)));
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  const proto::SubmitTensors known = pending.TakeMessage();
  EXPECT_THAT(known.requests(), SizeIs(0));
  EXPECT_EQ(known.slots(), "\x04");
  pending.Leave(*pending.TakeDecided(Decided({2}, 3)));
  ASSERT_THAT(pending.Add(Pending("x", 5)), IsOk());
  EXPECT_THAT(pending.TakeMessage().requests(), SizeIs(1));
}

TEST(PendingTensorsTest, RefusesADecisionAboutWhatItDidNotAskFor) {
  PendingTensors pending({.rank = 1, .num_ranks = 2, .task = 1});
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  const auto refused = [&](const proto::Decision& decision) {
    return pending.TakeDecided(decision).status();
  };
  EXPECT_THAT(refused(Decided({1}, 1)),
              IsInvalidArgument("none that waits"));  // Not sent yet.
  pending.TakeMessage();
  for (const std::vector<uint64_t>& requests :
       std::vector<std::vector<uint64_t>>{{}, {2}, {1, 1}, {1, 0}}) {
    EXPECT_EQ(refused(Decided(requests, 1)).code(),
              absl::StatusCode::kInvalidArgument);
  }
  proto::Decision gather = Decided({1}, 1);
  gather.add_rows(1);
  EXPECT_THAT(refused(gather), IsInvalidArgument("rows"));
  proto::Decision small = Decided({1}, 1);
  small.set_fused_elements(3);
  EXPECT_THAT(refused(small),
              IsInvalidArgument("fused_elements is 3; the requests have 4"));
  EXPECT_THAT(refused(Decided({1}, 1)), IsOk());
}

TEST(PendingTensorsTest, PartsOfAGatherHoldWhatEachRankHas) {
  PendingTensors pending({.rank = 1, .num_ranks = 2, .task = 1});
  const auto gather = std::make_shared<PendingTensor>();
  gather->request = {.name = "x",
                     .type = CollectiveType::kAllGather,
                     .shape = *TensorShape::Create({4, 3})};
  ASSERT_THAT(pending.Add(gather), IsOk());
  pending.TakeMessage();
  const auto reported = [&](std::vector<int64_t> rows, int64_t num_elements) {
    proto::Decision decision = Decided({1}, 1);
    for (const int64_t of_rank : rows) decision.add_rows(of_rank);
    decision.set_fused_elements(num_elements);
    return pending.TakeDecided(decision).status();
  };
  for (const int64_t num_elements : {-1, 1, 14, 32}) {
    EXPECT_EQ(reported({5, 4}, num_elements).code(),
              absl::StatusCode::kInvalidArgument)
        << num_elements;
  }
  for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{
           {}, {5}, {5, 3}, {-1, 4}, {int64_t{1} << 62, 4}}) {
    EXPECT_EQ(reported(rows, 16).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(reported({5, 4}, 16), IsOk());
}

TEST(PendingTensorsTest, RefusesADecisionThatOtherCollectivesCannotRun) {
  struct Case {
    TensorRequest request;
    std::vector<int64_t> rows;
    std::vector<int64_t> good, bad;  // Values of fused_elements.
  };
  const auto shape = *TensorShape::Create({4, 3});
  const auto exchange = [&](std::vector<int64_t> send_rows) {
    return TensorRequest{.name = "x",
                         .type = CollectiveType::kAllToAll,
                         .shape = shape,
                         .send_rows = std::move(send_rows)};
  };
  const TensorRequest broadcast = {.name = "x",
                                   .type = CollectiveType::kBroadcast,
                                   .shape = shape,
                                   .root = 1};
  TensorRequest scatter = broadcast;
  scatter.type = CollectiveType::kReduceScatter;
  scatter.root = 0;
  scatter.merge_op = "sum";
  TensorRequest uneven = scatter;
  uneven.shape = *TensorShape::Create({5, 3});
  TensorRequest gather = exchange({});
  gather.type = CollectiveType::kAllGather;
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<Case> cases = {
      {broadcast, {}, {0, 12, 13}, {-1, 11, 26, huge}},
      {broadcast, {4, 4}, {}, {0, 12}},
      {scatter, {}, {0, 6, 7}, {5, 14}},
      {scatter, {2, 2}, {}, {0, 6}},
      {uneven, {}, {0, 9}, {8, 20}},
      {exchange({}), {}, {0}, {6, huge}},
      {exchange({}), {2, 2}, {0}, {6}},
      {exchange({}), {3, 2}, {0}, {9}},
      {exchange({}), {2, 3}, {}, {0}},  // The rank sends itself two.
      {exchange({}), {2}, {}, {0}},
      {exchange({}), {-1, 2}, {}, {0}},
      {exchange({}), {huge, 2}, {}, {0}},
      {exchange({1, 3}), {}, {}, {0}},
      {exchange({1, 3}), {3, 3}, {0}, {9}},
      {exchange({3, 1}), {0, 1}, {0}, {9}},
      {exchange({3, 1}), {0, 2}, {}, {0}},
      {exchange({4}), {0, 4}, {}, {0}},
      {exchange({1, 3}), {huge / 12, 3}, {}, {0}},  // Too many bytes.
      {gather, {huge / 12, 4}, {}, {0, huge / 4}},
      {gather, {4, 4}, {0, 12}, {}},
  };
  for (const Case& one : cases) {
    for (const bool good : {true, false}) {
      for (const int64_t num_elements : good ? one.good : one.bad) {
        SCOPED_TRACE(absl::StrCat(&one - cases.data(), ": ", num_elements));
        PendingTensors pending({.rank = 1, .num_ranks = 2, .task = 1});
        const auto tensor = std::make_shared<PendingTensor>();
        tensor->request = one.request;
        ASSERT_THAT(pending.Add(tensor), IsOk());
        pending.TakeMessage();
        proto::Decision decision = Decided({1}, 1);
        decision.mutable_rows()->Add(one.rows.begin(), one.rows.end());
        decision.set_fused_elements(num_elements);
        const auto decided = pending.TakeDecided(decision);
        if (good) {
          EXPECT_THAT(decided, IsOk());
        } else {
          EXPECT_THAT(decided.status(), IsInvalidArgument("decision."));
        }
      }
    }
  }
}

TEST(PendingTensorsTest, RefusesADecisionWithoutAnInstance) {
  PendingTensors pending({.rank = 1, .num_ranks = 2, .task = 1});
  ASSERT_THAT(pending.Add(Pending("x")), IsOk());
  pending.TakeMessage();
  for (const int64_t instance : {0, -1}) {
    proto::Decision decision = Decided({1}, 1);
    decision.set_instance(instance);
    EXPECT_THAT(pending.TakeDecided(decision).status(),
                IsInvalidArgument("decision.instance"));
  }
}

TEST(PendingTensorsTest, AJoinFollowsAllRequestsAndRefusesMore) {
  PendingTensors pending({.rank = 1, .num_ranks = 2, .task = 1});
  ASSERT_THAT(pending.Add(Pending(std::string(60000, 'x'))), IsOk());
  ASSERT_THAT(pending.Join(), IsOk());
  EXPECT_TRUE(pending.has_undecided());
  EXPECT_THAT(pending.Join(), IsFailedPrecondition("rank 1 has joined"));
  EXPECT_THAT(pending.Add(Pending("y")), IsFailedPrecondition("rank 1"));
  EXPECT_FALSE(pending.TakeMessage().joins());  // The head of the name.
  EXPECT_TRUE(pending.TakeMessage().joins());
  EXPECT_FALSE(pending.has_message());
  ASSERT_THAT(pending.TakeDecided(Decided({1}, 0)), IsOk());
  proto::Decision end;
  end.set_last_joined(2);
  EXPECT_THAT(*pending.TakeDecided(end), IsEmpty());
  EXPECT_FALSE(pending.has_undecided());
  EXPECT_THAT(pending.TakeDecided(end).status(),
              IsInvalidArgument("not joined"));
  EXPECT_THAT(pending.Join(), IsOk());
  EXPECT_TRUE(pending.TakeMessage().joins());
}

TEST(PendingTensorsTest, AJoinedRankTakesPartInWhatNeedsNothingOfIt) {
  struct Case {
    TensorRequest request;
    std::vector<int64_t> rows;
    int64_t fused_elements = 0;
    bool is_good = false;
  };
  const auto request = [](CollectiveType type, std::vector<int64_t> dims) {
    TensorRequest made{.type = type, .shape = *TensorShape::Create(dims)};
    if (Reduces(type)) made.merge_op = "min";
    return made;
  };
  const auto reduction = request(CollectiveType::kAllReduce, {4});
  TensorRequest custom = reduction, bits = reduction, average = reduction;
  custom.merge_op = "mine";
  bits.merge_op = "band";
  average.final_op = std::string(FinalOp::DivideByGroupSize().name());
  TensorRequest custom_final = reduction;
  custom_final.final_op = "mine";
  const auto broadcast = request(CollectiveType::kBroadcast, {4});
  TensorRequest own_root = broadcast;
  own_root.root = 1;
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<Case> cases = {
      {reduction, {}, 0, true},
      {reduction, {}, 5, true},
      {average, {}, 0, true},
      {reduction, {}, huge},
      {reduction, {1, 1}, 0},
      {request(CollectiveType::kAllReduce, {huge}), {}, 0},
      {custom, {}, 0},
      {custom_final, {}, 0},
      {bits, {}, 0},
      {broadcast, {}, 0, true},
      {broadcast, {}, 4, true},
      {own_root, {}, 0},
      {request(CollectiveType::kAllGather, {0, 2}), {3, 0}, 0, true},
      {request(CollectiveType::kAllGather, {0, 2}), {3, 1}, 0},
      {request(CollectiveType::kAllGather, {0, 2}), {huge / 4, 0}, 0},
      {request(CollectiveType::kAllGather, {1, 2}), {3, 1}, 0},
      {request(CollectiveType::kAllGather, {}), {3, 0}, 0},
      {request(CollectiveType::kReduceScatter, {4}), {}, 0},
      {request(CollectiveType::kAllToAll, {0}), {}, 0},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(&one - cases.data());
    PendingTensors pending({.rank = 1, .num_ranks = 2, .task = 1});
    ASSERT_THAT(pending.Add(Pending("x")), IsOk());
    proto::Decision decision;
    decision.set_instance(1);
    EncodeTensorRequest(one.request, decision.mutable_stand_in());
    decision.mutable_rows()->Add(one.rows.begin(), one.rows.end());
    decision.set_fused_elements(one.fused_elements);
    EXPECT_THAT(pending.TakeDecided(decision).status(),
                IsInvalidArgument("not joined"));
    ASSERT_THAT(pending.Join(), IsOk());
    pending.TakeMessage();
    const auto decided = pending.TakeDecided(decision);
    if (one.is_good) {
      ASSERT_THAT(decided, IsOk());
      EXPECT_THAT(*decided, SizeIs(1));
      pending.Leave(*decided);  // Which frees no name.
    } else {
      EXPECT_EQ(decided.status().code(), absl::StatusCode::kInvalidArgument)
          << decided.status();
    }
    for (const int last : {-1, 3}) {
      proto::Decision end;
      end.set_last_joined(last);
      EXPECT_EQ(pending.TakeDecided(end).status().code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

TensorRequest Request(std::vector<int64_t> dims,
                      CollectiveType type = CollectiveType::kAllGather) {
  return {.name = "x", .type = type, .shape = *TensorShape::Create(dims)};
}

TEST(RankRequestsTest, GivesBackWhatEachRankAskedFor) {
  TensorRequest other_dtype = Request({3, 2});
  other_dtype.dtype = DType::kInt32;
  TensorRequest other_op = Request({3, 2});
  other_op.merge_op = "max";
  TensorRequest other_final_op = other_op;
  other_final_op.final_op = "last";
  TensorRequest other_root = Request({3, 2}, CollectiveType::kBroadcast);
  other_root.root = 2;
  TensorRequest other_rows = Request({3, 2}, CollectiveType::kAllToAll);
  other_rows.send_rows = {1, 2};
  const std::vector<TensorRequest> wanted = {
      Request({3, 2}),
      Request({4, 2}),
      Request({0, 2}),
      Request({3, 2}),
      Request({3, 5}),
      Request({3}),
      Request({}),
      Request({1, 2, 3, 4, 5, 6}),
      Request({3, 2}, CollectiveType::kAllReduce),
      other_dtype,
      other_op,
      other_final_op,
      other_root,
      other_rows};
  const int num_ranks = static_cast<int>(wanted.size());
  for (int first = 0; first < num_ranks; ++first) {
    SCOPED_TRACE(first);
    RankRequests requests(wanted[first]);
    for (int rank = num_ranks - 1; rank >= 0; --rank) {
      if (rank != first) requests.Add(rank, wanted[rank]);
    }
    EXPECT_EQ(requests.name(), "x");
    EXPECT_FALSE(requests.all_equal());
    std::vector<TensorRequest> given = requests.OfAll(num_ranks);
    EXPECT_EQ(given[0].name, "x");
    for (int rank = 0; rank < num_ranks; ++rank) {
      EXPECT_EQ(given[rank].name, rank == 0 ? "x" : "");
      given[rank].name = "x";
    }
    EXPECT_EQ(given, wanted);
  }
}

TEST(RankRequestsTest, EqualRequestsAreOne) {
  RankRequests requests(Request({3, 2}));
  requests.Add(0, Request({3, 2}));
  requests.Add(7, Request({3, 2}));
  EXPECT_TRUE(requests.all_equal());
  requests.Add(5, Request({2, 2}));
  EXPECT_FALSE(requests.all_equal());
}

TensorRequest Reduction(std::string name) {
  return {.name = std::move(name),
          .shape = *TensorShape::Create({2, 3}),
          .merge_op = "sum",
          .final_op = "last"};
}

TEST(RequestBatchesTest, RequestsComeOutAsTheyWentInWhateverTheirNames) {
  RequestBatches batches;
  std::vector<TensorRequest> in;
  for (const size_t size : {1, 65536, 20000, 30000, 40000, 41000, 3, 65535}) {
    in.push_back(Reduction(std::string(size, static_cast<char>(in.size()))));
    batches.Add(in.size(), in.back(), std::nullopt);
  }
  std::vector<TensorRequest> out;
  std::vector<uint64_t> ids;
  std::string name_head;
  uint64_t number = 0;
  while (!batches.empty()) {
    const RequestBatches::Batch batch = batches.TakeNext();
    EXPECT_LE(batch.message.ByteSizeLong(), size_t{60} << 10);
    EXPECT_EQ(batch.message.number(), ++number);
    EXPECT_EQ(batch.message.first_request(), ids.size() + 1);
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    name_head += batch.message.name_head();
    for (const proto::TensorRequest& one : batch.message.requests()) {
      const auto request = DecodeTensorRequest(name_head, one);
      ASSERT_THAT(request, IsOk());
      out.push_back(*request);
      name_head.clear();
    }
  }
  EXPECT_EQ(out, in);
  EXPECT_THAT(ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

// The rows alone almost fill a message.
TEST(RequestBatchesTest, RowsForMostRanksFitIntoAMessage) {
  RequestBatches batches;
  const std::string wanted(30000, 'x');
  TensorRequest request = {.name = wanted,
                           .type = CollectiveType::kAllToAll,
                           .dtype = DType::kInt8,
                           .shape = TensorShape::Vector(int64_t{1} << 62)};
  request.send_rows.assign(kMaxSendRows, 0);
  request.send_rows[0] = int64_t{1} << 62;
  ASSERT_THAT(Validate(request), IsOk());
  // Many bytes each.
  request.send_rows.assign(kMaxSendRows, int64_t{1} << 62);
  batches.Add(1, request, std::nullopt);
  std::string name;
  for (int i = 0; i < 3 && !batches.empty(); ++i) {
    const RequestBatches::Batch batch = batches.TakeNext();
    EXPECT_LE(batch.message.ByteSizeLong(), size_t{60} << 10);
    name += batch.message.name_head();
    if (batch.message.requests().empty()) continue;
    name += batch.message.requests(0).name();
    EXPECT_EQ(batch.message.requests(0).send_rows_size(),
              static_cast<int>(kMaxSendRows));
  }
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(name, wanted);
  request.send_rows.push_back(0);
  EXPECT_THAT(Validate(request), IsInvalidArgument("4097 entries"));
}

TEST(RequestBatchesTest, KnownRequestsAreBitsAndCountAfterTheOthers) {
  RequestBatches batches;
  batches.Add(1, Reduction("a"), 17);
  batches.Add(2, Reduction("b"), std::nullopt);
  batches.Add(3, Reduction("c"), 3);
  const RequestBatches::Batch batch = batches.TakeNext();
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(batch.message.requests_size(), 1);
  EXPECT_THAT(batch.ids, ElementsAre(2, 3, 1));
  EXPECT_EQ(batch.message.slots().size(), 3u);
  EXPECT_THAT(DecodeSlots(batch.message.slots()), ElementsAre(3, 17));
}

TEST(RequestBatchesTest, AThousandKnownNamesTakeABitEach) {
  RequestBatches batches;
  for (uint32_t i = 0; i < 1000; ++i) {
    batches.Add(i, Reduction(std::to_string(i)), i);
  }
  EXPECT_LE(batches.TakeNext().message.ByteSizeLong(), 1000u / 8 + 16);
  EXPECT_TRUE(batches.empty());
  EXPECT_THAT(DecodeSlots(EncodeSlots({})), IsEmpty());
}

TensorRequest Gather(std::vector<int64_t> dims) {
  return {.name = "x",
          .type = CollectiveType::kAllGather,
          .shape = *TensorShape::Create(dims)};
}

TEST(RequestCheckTest, RanksMayDifferInTheRowsOfAGather) {
  EXPECT_THAT(CheckRequestsAgree({Gather({0, 2}), Gather({7, 2})}), IsOk());
  EXPECT_THAT(CheckRequestsAgree({}), IsOk());
}

TEST(RequestCheckTest, TypesAreComparedBeforeOperationsBeforeShapes) {
  TensorRequest one = Gather({2});
  TensorRequest other = Gather({2, 2});
  other.type = CollectiveType::kAllReduce;
  EXPECT_THAT(CheckRequestsAgree({one, other}),
              IsFailedPrecondition("mismatched operations: one rank did an "
                                   "allgather, but another rank did an "
                                   "allreduce: ranks [0] / [1]"));
  other.dtype = DType::kInt8;
  EXPECT_THAT(CheckRequestsAgree({one, other}),
              IsFailedPrecondition("mismatched data types"));
}

TEST(RequestCheckTest, NamesAllValuesAndTheirRanks) {
  TensorRequest request{.name = "x", .merge_op = "sum"};
  std::vector<TensorRequest> by_rank(40, request);
  by_rank[3].dtype = by_rank[5].dtype = DType::kInt8;
  by_rank[4].dtype = DType::kInt64;
  EXPECT_EQ(
      CheckRequestsAgree(by_rank).message(),
      "tensor \"x\": mismatched data types: one rank had type float32, "
      "but another rank had type int8: ranks [0, 1, 2, 6, 7, 8, 9, 10 and "
      "29 more] / [3, 5]; a further one had type int64: ranks [4]");
}

TEST(RequestCheckTest, RowsThatAreTooManyTogetherAreRefused) {
  const int64_t half = int64_t{1} << 62;
  EXPECT_THAT(CheckRequestsAgree({Gather({half}), Gather({half})}),
              IsFailedPrecondition("too many"));
  EXPECT_THAT(
      CheckRequestsAgree({Gather({half / 4, 2}), Gather({half / 4, 2}),
                          Gather({half / 4, 2}), Gather({half / 4, 2})}),
      IsFailedPrecondition("too many"));
}

TEST(RequestCheckTest, ALongNameIsShownInPart) {
  EXPECT_EQ(Quoted(std::string("a\0\"b", 4)), "\"a\\x00\\\"b\"");
  EXPECT_THAT(Quoted(std::string(70000, 'x')),
              HasSubstr("...\" (70000 bytes)"));
}

using Ended = absl::AnyInvocable<void() &&>;

class RunsInOrderTest : public testing::Test {
 protected:
  // Adds a run that ends when the test ends it.
  void Add(int which) {
    runs_->Add([this, which](Ended ended) {
      begun_.push_back(which);
      under_way_.push_back(std::move(ended));
    });
  }
  void EndOne() {
    Ended ended = std::move(under_way_.front());
    under_way_.pop_front();
    std::move(ended)();
  }

  std::vector<int> begun_;
  std::deque<Ended> under_way_;
  std::shared_ptr<RunsInOrder> runs_ = std::make_shared<RunsInOrder>();
};

TEST_F(RunsInOrderTest, TheNextBeginsWhenTheOneBeforeHasEnded) {
  for (int i = 1; i <= 3; ++i) Add(i);
  EXPECT_THAT(begun_, ElementsAre(1));
  EndOne();
  EXPECT_THAT(begun_, ElementsAre(1, 2));
  Add(4);
  EndOne();
  EXPECT_THAT(begun_, ElementsAre(1, 2, 3));
  EndOne();
  EndOne();
  Add(5);
  EXPECT_THAT(begun_, ElementsAre(1, 2, 3, 4, 5));
  EndOne();
}

TEST_F(RunsInOrderTest, AllRunsEndThoughTheirOwnerIsGone) {
  for (int i = 1; i <= 3; ++i) Add(i);
  runs_ = nullptr;
  for (int i = 1; i <= 3; ++i) EndOne();
  EXPECT_THAT(begun_, ElementsAre(1, 2, 3));
}

TEST_F(RunsInOrderTest, RunsThatEndAtOnceNeedNoStack) {
  Add(0);
  int num_runs = 0;
  for (int i = 0; i < 1000000; ++i) {
    runs_->Add([&num_runs](Ended ended) {
      ++num_runs;
      std::move(ended)();
    });
  }
  EndOne();
  EXPECT_EQ(num_runs, 1000000);
}

TEST_F(RunsInOrderTest, RunsThatEndOnOtherThreadsAreOneAtATime) {
  constexpr int kNumRuns = 1000;
  const DefaultEnvironment environment(/*num_workers=*/2);
  BlockingCounter left(kNumRuns);
  std::vector<int> order, wanted;  // Not guarded.
  for (int i = 0; i < kNumRuns; ++i) {
    wanted.push_back(i);
    runs_->Add([&, i](Ended ended) {
      environment.get().queue->Schedule(
          [&, i, ended = std::move(ended)]() mutable {
            order.push_back(i);
            std::move(ended)();
            left.DecrementCount();
          });
    });
  }
  left.Wait();
  EXPECT_EQ(order, wanted);
}

}  // namespace coordinator_test
}  // namespace tutti
