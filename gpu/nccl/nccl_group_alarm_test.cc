#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

// Tests the alarms by which a communicator looks for errors.

namespace tutti {
namespace nccl_group_alarm_test {

using ::testing::IsEmpty;

// Keeps alarms until the test takes them. The test may run them later.
class HeldClock : public Clock {
 public:
  absl::Time Now() override { return absl::UnixEpoch(); }
  AlarmId CallAt(absl::Time /*when*/, Work alarm) override {
    alarms_[++last_id_] = std::move(alarm);
    return last_id_;
  }
  bool Cancel(AlarmId id) override { return alarms_.erase(id) > 0; }

  size_t num_alarms() const { return alarms_.size(); }

  // REQUIRES: there is an alarm.
  Work TakeFirst() {
    Work first = std::move(alarms_.begin()->second);
    alarms_.erase(alarms_.begin());
    return first;
  }

 private:
  AlarmId last_id_ = 0;
  std::map<AlarmId, Work> alarms_;
};

// Calls `when_asked` in the next IsReady().
class AskedNccl : public FakeNcclRuntime {
 public:
  using FakeNcclRuntime::FakeNcclRuntime;
  std::function<void()> when_asked;

  absl::StatusOr<bool> IsReady(NcclComm comm) override {
    if (auto requested = std::exchange(when_asked, nullptr)) requested();
    return FakeNcclRuntime::IsReady(comm);
  }
};

// A communicator of one rank.
class NcclGroupAlarmTest : public ::testing::Test {
 protected:
  ~NcclGroupAlarmTest() override {
    group_.reset();
    while (clock_.num_alarms() > 0) clock_.TakeFirst()();
    environment_.RunAll();
    EXPECT_THAT(network_->Mistakes(), IsEmpty());
  }

  // Adds a launch without calls, which runs until Ended(). Returns the status
  // that `launched` receives.
  const absl::Status& Add() {
    absl::Status& launched =
        launched_.emplace_back(absl::UnknownError("waits"));
    group_->Add(
        [this] {
          return NcclGroup::Options{.nccl = nccl_,
                                    .id = network_->NewId().value(),
                                    .size = 1,
                                    .ranks = {{.rank = 0, .gpu = 0}},
                                    .environment = used_environment_,
                                    .cancellation = cancellation_};
        },
        {.begin = [](const NcclTicket& /*ticket*/,
                     absl::Span<const NcclComm> comms)
             -> absl::StatusOr<std::vector<NcclPart>> {
           return std::vector<NcclPart>{{.comm = comms[0]}};
         },
         .launched =
             [&](absl::Status status) { launched = std::move(status); }});
    return launched;
  }

  void Launch() {
    const absl::Status& launched = Add();
    environment_.RunAll();
    EXPECT_THAT(launched, IsOk());
  }

  HeldClock clock_;
  SimulatedEnvironment environment_{1};
  const Environment used_environment_ = {.queue = environment_.get().queue,
                                         .clock = &clock_,
                                         .random = environment_.get().random};
  FakeGpuRuntime gpus_{{.environment = used_environment_}};
  const std::shared_ptr<FakeNcclNetwork> network_ =
      std::make_shared<FakeNcclNetwork>();
  const std::shared_ptr<AskedNccl> nccl_ =
      std::make_shared<AskedNccl>(network_, &gpus_);
  const std::shared_ptr<Cancellation> cancellation_ =
      std::make_shared<Cancellation>();
  std::shared_ptr<NcclGroup> group_ = std::make_shared<NcclGroup>();
  std::deque<absl::Status> launched_;
};

TEST_F(NcclGroupAlarmTest, ThereIsOneAsLongAsAnythingIsUnderWay) {
  Launch();
  Launch();
  EXPECT_EQ(clock_.num_alarms(), 1);
  clock_.TakeFirst()();
  EXPECT_EQ(clock_.num_alarms(), 1);
  group_->Ended();
  EXPECT_EQ(clock_.num_alarms(), 1);
  group_->Ended();
  EXPECT_EQ(clock_.num_alarms(), 0);
}

TEST_F(NcclGroupAlarmTest, OneThatRingsLateDoesNotMakeTwo) {
  Launch();
  Work late = clock_.TakeFirst();
  group_->Ended();  // Too late to cancel it.
  Launch();
  EXPECT_EQ(clock_.num_alarms(), 1);
  std::move(late)();
  EXPECT_EQ(clock_.num_alarms(), 1);
  group_->Ended();
  EXPECT_EQ(clock_.num_alarms(), 0);
}

// The alarm leaves launches to the queue: a launch may block, and other alarms
// need the clock's thread.
TEST_F(NcclGroupAlarmTest, WhereCommunicatorsBlockItLaunchesNothing) {
  nccl_->Block("it is old");
  Launch();
  nccl_->when_asked = [this] { Add(); };
  clock_.TakeFirst()();
  ASSERT_EQ(launched_.size(), 2);
  EXPECT_THAT(launched_[1], StatusIs(absl::StatusCode::kUnknown, "waits"));
  environment_.RunAll();
  EXPECT_THAT(launched_[1], IsOk());
  group_->Ended();
  group_->Ended();
}

}  // namespace nccl_group_alarm_test
}  // namespace tutti
