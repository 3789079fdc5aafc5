#include "named_tensors/rank_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "framework/control/control_channel.h"
#include "framework/control/wire_codec.h"
#include "named_tensors/coordinator_server.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"

namespace tutti {
namespace rank_coordinator_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
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

}  // namespace rank_coordinator_test
}  // namespace tutti
