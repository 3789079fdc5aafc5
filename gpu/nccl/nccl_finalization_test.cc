#include "gpu/nccl/nccl_finalization.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
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

namespace tutti {
namespace nccl_finalization_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kMoment = absl::Milliseconds(1);

// A communicator of two ranks of this process.
class NcclFinalizationTest : public ::testing::Test {
 protected:
  ~NcclFinalizationTest() override { environment_.RunAll(); }

  static std::vector<NcclRank> Ranks() {
    return {{.rank = 0, .gpu = 0}, {.rank = 1, .gpu = 1}};
  }
  std::vector<NcclComm> MakeComms() {
    return nccl_->CommInitRanks(nccl_->NewUniqueId().value(), 2, Ranks())
        .value();
  }
  void Start(const std::vector<NcclComm>& comms) {
    NcclFinalization::Start(nccl_, comms, environment_.get());
  }
  void ExpectCounts(int living, int destroys, int aborts) {
    EXPECT_EQ(network_->counts().living, living);
    EXPECT_EQ(network_->counts().destroys, destroys);
    EXPECT_EQ(network_->counts().aborts, aborts);
  }

  SimulatedEnvironment environment_{1};
  FakeGpuRuntime gpus_{{.num_gpus = 2, .environment = environment_.get()}};
  const std::shared_ptr<FakeNcclNetwork> network_ =
      std::make_shared<FakeNcclNetwork>();
  const std::shared_ptr<FakeNcclRuntime> nccl_ =
      std::make_shared<FakeNcclRuntime>(network_, &gpus_);
};

TEST_F(NcclFinalizationTest, IsWorkOfTheQueueAndDestroysAll) {
  Start(MakeComms());
  ExpectCounts(/*living=*/2, /*destroys=*/0, /*aborts=*/0);
  environment_.RunAll();
  ExpectCounts(/*living=*/0, /*destroys=*/2, /*aborts=*/0);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

TEST_F(NcclFinalizationTest, WhatTakesLongIsAskedForByTheClock) {
  const auto comms = MakeComms();
  network_->SetLooks(5);
  Start(comms);
  environment_.RunAll();
  ExpectCounts(/*living=*/2, /*destroys=*/0, /*aborts=*/0);
  environment_.Advance(NcclFinalization::kLongest - kMoment);
  ExpectCounts(/*living=*/0, /*destroys=*/2, /*aborts=*/0);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

TEST_F(NcclFinalizationTest, WhatNeverEndsIsAborted) {
  network_->HangFinalizes(true);
  Start(MakeComms());
  environment_.RunAll();
  environment_.Advance(NcclFinalization::kLongest - kMoment);
  ExpectCounts(/*living=*/2, /*destroys=*/0, /*aborts=*/0);
  environment_.Advance(kMoment);
  ExpectCounts(/*living=*/0, /*destroys=*/0, /*aborts=*/2);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

TEST_F(NcclFinalizationTest, WhatFailsIsAborted) {
  const auto comms = MakeComms();
  network_->FailAll(absl::InternalError("the link is down"));
  Start(comms);
  environment_.RunAll();
  ExpectCounts(/*living=*/0, /*destroys=*/0, /*aborts=*/2);
}

TEST_F(NcclFinalizationTest, EndsAGroupThatWasNotCancelled) {
  auto group = std::make_shared<NcclGroup>();
  const auto cancellation = std::make_shared<Cancellation>();
  absl::Status launched = absl::UnknownError("not called");
  group->Add(
      [&] {
        return NcclGroup::Options{.nccl = nccl_,
                                  .id = nccl_->NewUniqueId().value(),
                                  .size = 2,
                                  .ranks = Ranks(),
                                  .environment = environment_.get(),
                                  .cancellation = cancellation};
      },
      {.begin = [](const NcclTicket& /*ticket*/,
                   absl::Span<const NcclComm> comms)
           -> absl::StatusOr<std::vector<NcclPart>> {
         return std::vector<NcclPart>{{.comm = comms[0]}, {.comm = comms[1]}};
       },
       .launched = [&](absl::Status status) { launched = std::move(status); }});
  environment_.RunAll();
  EXPECT_THAT(launched, IsOk());
  group->Ended();
  group.reset();
  environment_.RunAll();
  ExpectCounts(/*living=*/0, /*destroys=*/2, /*aborts=*/0);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

// NCCL hangs in this case.
TEST_F(NcclFinalizationTest, TheDoubleHangsWhereRanksAreFinalizedOneByOne) {
  const auto comms = MakeComms();
  EXPECT_THAT(nccl_->Finalize({comms[0]}), IsOk());
  EXPECT_THAT(nccl_->Finalize({comms[1]}), IsOk());
  EXPECT_FALSE(AreReady(*nccl_, comms).value_or(true));
  EXPECT_THAT(nccl_->Destroy(comms),
              IsInvalidArgument("rank 0 is destroyed before"));
  EXPECT_THAT(nccl_->Abort({comms[1]}),
              IsInvalidArgument("rank 1 is aborted without all"));
  EXPECT_THAT(nccl_->Abort(comms), IsOk());
  EXPECT_THAT(network_->Mistakes(),
              ElementsAre(HasSubstr("destroyed"), HasSubstr("aborted")));
}

// Tests the alarms by which a communicator looks for errors.

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

}  // namespace nccl_finalization_test
}  // namespace tutti
