#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_finalization.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/nccl_then.h"
#include "gpu/nccl/runtime/nccl_keys.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/nccl/runtime/nccl_turns.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace nccl_communicators_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::Values;

// Makes a launch without calls. Its status goes to `ended`.
NcclGroup::Launch EmptyLaunch(absl::Status* ended) {
  return {
      .begin = [](const NcclTicket& /*ticket*/,
                  absl::Span<const NcclComm> comms)
          -> absl::StatusOr<std::vector<NcclPart>> {
        std::vector<NcclPart> parts;
        for (const NcclComm comm : comms) parts.push_back({.comm = comm});
        return parts;
      },
      .launched = [ended](absl::Status status) { *ended = std::move(status); }};
}

// Adds the launch to a group whose ranks, one on each GPU, are all here.
void AddLaunch(NcclGroup& group, const std::shared_ptr<NcclRuntime>& nccl,
               int num_gpus, const Environment& environment,
               const std::shared_ptr<Cancellation>& cancellation,
               NcclGroup::Launch launch) {
  group.Add(
      [&] {
        NcclGroup::Options options = {.nccl = nccl,
                                      .id = nccl->NewUniqueId().value(),
                                      .size = num_gpus,
                                      .environment = environment,
                                      .cancellation = cancellation};
        for (int gpu = 0; gpu < num_gpus; ++gpu) {
          options.ranks.push_back({.rank = gpu, .gpu = gpu});
        }
        return options;
      },
      std::move(launch));
}

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
    FinalizeNccl(nccl_, comms, environment_.get());
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
  environment_.Advance(kLongestNcclEnd - kMoment);
  ExpectCounts(/*living=*/0, /*destroys=*/2, /*aborts=*/0);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

TEST_F(NcclFinalizationTest, WhatNeverEndsIsAborted) {
  network_->HangFinalizes(true);
  Start(MakeComms());
  environment_.RunAll();
  environment_.Advance(kLongestNcclEnd - kMoment);
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
  AddLaunch(*group, nccl_, /*num_gpus=*/2, environment_.get(), cancellation,
            EmptyLaunch(&launched));
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

// Calls `when_requested` in the next IsReady().
class RequestedNccl : public FakeNcclRuntime {
 public:
  using FakeNcclRuntime::FakeNcclRuntime;
  std::function<void()> when_requested;

  absl::StatusOr<bool> IsReady(NcclComm comm) override {
    if (auto requested = std::exchange(when_requested, nullptr)) requested();
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
    AddLaunch(*group_, nccl_, /*num_gpus=*/1, used_environment_, cancellation_,
              EmptyLaunch(&launched));
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
  const std::shared_ptr<RequestedNccl> nccl_ =
      std::make_shared<RequestedNccl>(network_, &gpus_);
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
  nccl_->when_requested = [this] { Add(); };
  clock_.TakeFirst()();
  ASSERT_EQ(launched_.size(), 2);
  EXPECT_THAT(launched_[1], StatusIs(absl::StatusCode::kUnknown, "waits"));
  environment_.RunAll();
  EXPECT_THAT(launched_[1], IsOk());
  group_->Ended();
  group_->Ended();
}

// Tests turns alone, and among communicators of two processes.

// Two processes with two GPUs each. Their NCCL connects at the first launch.
class NcclTurnsOfGroupsTest : public ::testing::Test {
 protected:
  static constexpr int kProcesses = 2;
  static constexpr int kGpus = 2;

  // Longer than any step of NCCL here.
  static constexpr absl::Duration kLong = absl::Seconds(1);

  // A communicator over the same GPUs of both processes.
  struct Communicator {
    std::string id;
    std::vector<int> gpus;
    std::vector<std::shared_ptr<NcclGroup>> ends;  // Indexed by process.
    std::vector<absl::Status> launched;
  };

  static auto Waits() { return StatusIs(absl::StatusCode::kUnknown, "waits"); }

  NcclTurnsOfGroupsTest() {
    network_->ConnectAtFirstLaunch(true);
    for (int process = 0; process < kProcesses; ++process) {
      gpus_.push_back(std::make_unique<FakeGpuRuntime>(FakeGpuRuntime::Options{
          .num_gpus = kGpus, .environment = environment_.get()}));
      nccl_.push_back(
          std::make_shared<FakeNcclRuntime>(network_, gpus_.back().get()));
    }
  }
  ~NcclTurnsOfGroupsTest() override {
    cancellation_->Cancel(absl::CancelledError("the test ends"));
    environment_.RunAll();
    EXPECT_THAT(network_->Mistakes(), IsEmpty());
  }

  Communicator& Make(std::vector<int> gpus) {
    Communicator& made = communicators_.emplace_back(
        Communicator{.id = network_->NewId().value(), .gpus = std::move(gpus)});
    for (int process = 0; process < kProcesses; ++process) {
      made.ends.push_back(std::make_shared<NcclGroup>());
      made.launched.push_back(absl::UnknownError("waits"));
    }
    return made;
  }

  // Launches an empty all-reduce, which sets `launched`.
  void Launch(Communicator& communicator, int process) {
    communicator.ends[process]->Add(
        [&] { return OptionsOf(communicator, process); },
        {.begin =
             [this, &communicator, process](const NcclTicket& /*ticket*/,
                                            absl::Span<const NcclComm> comms) {
               return PartsOf(communicator, process, comms);
             },
         .launched =
             [&communicator, process](absl::Status status) {
               if (status.ok()) communicator.ends[process]->Ended();
               communicator.launched[process] = std::move(status);
             }});
  }

  void LetPass(absl::Duration duration) {
    environment_.RunAll();
    environment_.Advance(duration);
  }

  NcclTurns& turns(int process) { return nccl_[process]->turns(); }
  int num_launches() { return network_->counts().launches; }

 private:
  NcclGroup::Options OptionsOf(const Communicator& communicator, int process) {
    NcclGroup::Options options = {.nccl = nccl_[process],
                                  .id = communicator.id,
                                  .environment = environment_.get(),
                                  .cancellation = cancellation_};
    const auto num_gpus = static_cast<int>(communicator.gpus.size());
    options.size = kProcesses * num_gpus;
    for (int i = 0; i < num_gpus; ++i) {
      options.ranks.push_back(
          {.rank = process * num_gpus + i, .gpu = communicator.gpus[i]});
    }
    return options;
  }

  absl::StatusOr<std::vector<NcclPart>> PartsOf(
      const Communicator& communicator, int process,
      absl::Span<const NcclComm> comms) {
    std::vector<NcclPart> parts;
    for (size_t i = 0; i < comms.size(); ++i) {
      const absl::StatusOr<GpuStream> stream =
          gpus_[process]->CreateStream(communicator.gpus[i]);
      if (!stream.ok()) return stream.status();
      parts.push_back({.comm = comms[i], .stream = *stream, .calls = {{}}});
    }
    return parts;
  }

  SimulatedEnvironment environment_{1};
  std::vector<std::unique_ptr<FakeGpuRuntime>> gpus_;
  const std::shared_ptr<FakeNcclNetwork> network_ =
      std::make_shared<FakeNcclNetwork>();
  std::vector<std::shared_ptr<FakeNcclRuntime>> nccl_;
  const std::shared_ptr<Cancellation> cancellation_ =
      std::make_shared<Cancellation>();
  std::deque<Communicator> communicators_;  // Keeps addresses.
};

// Each communicator waits for a launch that the other process has put behind a
// launch of the other communicator.
TEST_F(NcclTurnsOfGroupsTest, ThoseOnDifferentGpusGoInAnyOrder) {
  Communicator& x = Make({0});
  Communicator& y = Make({1});
  Launch(y, 0);
  Launch(x, 0);
  Launch(x, 1);
  Launch(y, 1);
  LetPass(kLong);
  EXPECT_THAT(x.launched, Each(IsOk()));
  EXPECT_THAT(y.launched, Each(IsOk()));
}

// A late process delays launches on its GPU, and the launches behind them.
TEST_F(NcclTurnsOfGroupsTest, ALatePeerHoldsUpNobodyOnOtherGpus) {
  Communicator& late = Make({0});
  Communicator& free = Make({1});
  Communicator& shares = Make({0, 1});
  turns(1).Take(this, {0}, [] {});
  for (Communicator* const one : {&late, &free, &shares}) {
    for (int process = 0; process < kProcesses; ++process) {
      Launch(*one, process);
    }
    LetPass(kLong);
  }
  EXPECT_THAT(late.launched, Each(Waits()));
  EXPECT_THAT(free.launched, Each(IsOk()));
  EXPECT_THAT(shares.launched, Each(Waits()));
  EXPECT_EQ(num_launches(), 3);  // Including one of `late`.
  turns(1).GiveBack(this);
  LetPass(kLong);
  EXPECT_THAT(late.launched, Each(IsOk()));
  EXPECT_THAT(shares.launched, Each(IsOk()));
}

// A communicator that fails while it waits for its turn delays nobody.
TEST_F(NcclTurnsOfGroupsTest, ThoseBehindOneThatFailsGo) {
  Communicator& fails = Make({0, 1});
  Communicator& behind = Make({1});
  for (int process = 0; process < kProcesses; ++process) {
    turns(process).Take(this, {0}, [] {});
  }
  for (Communicator* const one : {&fails, &behind}) {
    for (int process = 0; process < kProcesses; ++process) {
      Launch(*one, process);
    }
    LetPass(kLong);
  }
  EXPECT_THAT(behind.launched, Each(Waits()));
  for (const auto& end : fails.ends) end->Break(absl::AbortedError("enough"));
  LetPass(kLong);
  EXPECT_THAT(fails.launched,
              Each(StatusIs(absl::StatusCode::kAborted, "enough")));
  EXPECT_THAT(behind.launched, Each(IsOk()));
}

class NcclTurnsTest : public ::testing::Test {
 protected:
  // `who` is a letter, appended to begun_ when its turn has come.
  void Take(const char* who, std::vector<int> gpus) {
    turns_.Take(who, std::move(gpus), [this, who] { begun_ += *who; });
  }

  NcclTurns turns_;
  std::string begun_;
  const char* const a_ = "a";
  const char* const b_ = "b";
  const char* const c_ = "c";
  const char* const d_ = "d";
};

TEST_F(NcclTurnsTest, OneOfAGpuAtATimeInTheOrderTheyCame) {
  Take(a_, {0});
  Take(b_, {0});
  Take(c_, {0});
  EXPECT_EQ(begun_, "a");
  turns_.GiveBack(a_);
  EXPECT_EQ(begun_, "ab");
  turns_.GiveBack(b_);
  EXPECT_EQ(begun_, "abc");
}

TEST_F(NcclTurnsTest, ThoseThatShareNoGpuGoAtOnce) {
  Take(a_, {0, 2});
  Take(b_, {1});
  Take(c_, {3});
  EXPECT_EQ(begun_, "abc");
}

TEST_F(NcclTurnsTest, AllThatWaitedForOneGoInOrder) {
  Take(a_, {0, 1, 2});
  Take(b_, {1});
  Take(c_, {2, 0});
  Take(d_, {2});
  EXPECT_EQ(begun_, "a");
  turns_.GiveBack(a_);
  EXPECT_EQ(begun_, "abc");
}

TEST_F(NcclTurnsTest, NobodyOvertakesWhoWaitsForTheGpu) {
  Take(a_, {0});
  Take(b_, {0, 1});
  Take(c_, {1});
  EXPECT_EQ(begun_, "a");
  turns_.GiveBack(a_);
  EXPECT_EQ(begun_, "ab");
  turns_.GiveBack(b_);
  EXPECT_EQ(begun_, "abc");
}

TEST_F(NcclTurnsTest, WhoLeavesDoesNotBeginAndHoldsUpNobody) {
  Take(a_, {0});
  Take(b_, {0, 1});
  Take(c_, {1});
  EXPECT_TRUE(turns_.Leave(b_));
  EXPECT_EQ(begun_, "ac");
  EXPECT_FALSE(turns_.Leave(b_));
  turns_.GiveBack(a_);
  EXPECT_EQ(begun_, "ac");
}

TEST_F(NcclTurnsTest, WhoHasBegunCannotLeave) {
  Take(a_, {0});
  Take(b_, {0});
  EXPECT_FALSE(turns_.Leave(a_));
  EXPECT_EQ(begun_, "a");
}

TEST_F(NcclTurnsTest, WhoGivesItBackMayComeAgain) {
  Take(a_, {0});
  Take(b_, {0});
  turns_.GiveBack(a_);
  Take(a_, {0});
  EXPECT_EQ(begun_, "ab");
  turns_.GiveBack(b_);
  EXPECT_EQ(begun_, "aba");
}

// Group of all devices, with the leader's entries for NcclReduce.
CollGroupParams GroupOf(FakeNcclTasks& tasks) {
  CollGroupParams group;
  for (int rank = 0; rank < tasks.size(); ++rank) {
    group.members.push_back({.device = tasks.device(rank).attributes()});
  }
  const auto factory = CollectiveRegistry::Global().Find("NcclReduce");
  EXPECT_THAT(factory, IsOk());
  EXPECT_THAT(
      (*factory)->Create()->InitializeCollectiveGroupRuntimeDetails(&group),
      IsOk());
  return group;
}

TEST(NcclKeysTest, AGroupHasAKey) {
  FakeNcclTasks tasks({.num_tasks = 2});
  EXPECT_THAT(NcclKeyOf(GroupOf(tasks)).value_or(""), SizeIs(kNcclIdBytes));
  EXPECT_EQ(tasks.network().counts().ids, 1);
}

TEST(NcclKeysTest, ALeaderThatFailsToMakeOneKeepsWhy) {
  FakeNcclTasks tasks({});
  tasks.network().FailNextId(absl::InternalError("no socket"));
  const CollGroupParams group = GroupOf(tasks);
  EXPECT_EQ(group.runtime_details.communicator_key, "");
  EXPECT_THAT(group.runtime_details.key_status, IsInternal("no socket"));
}

TEST(NcclKeysTest, WhereCommunicatorsBlockOnlyAGroupOfOneTaskHasAKey) {
  FakeNcclTasks one({.why_blocking = "it is old"});
  EXPECT_THAT(NcclKeyOf(GroupOf(one)).value_or(""), SizeIs(kNcclIdBytes));
  FakeNcclTasks two({.num_tasks = 2, .why_blocking = "it is old"});
  const CollGroupParams group = GroupOf(two);
  EXPECT_EQ(group.runtime_details.communicator_key, "");
  EXPECT_THAT(group.runtime_details.key_status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "among several tasks NCCL may not block: it is old"));
  EXPECT_EQ(two.network().counts().ids, 0);
}

TEST(NcclKeysTest, ALeaderWithoutNcclKeepsThat) {
  NcclKeys keys;
  CollGroupParams group;
  AddNcclKey(keys, &group);
  EXPECT_EQ(group.runtime_details.communicator_key, "");
  EXPECT_THAT(group.runtime_details.key_status,
              IsUnavailable("no device of the leader's process has NCCL"));
}

TEST(NcclKeysTest, WhatIsNoKeyIsRefused) {
  for (const size_t size : {size_t{0}, kNcclIdBytes - 1, kNcclIdBytes + 1}) {
    CollGroupParams group;
    group.runtime_details.communicator_key = std::string(size, 'x');
    EXPECT_THAT(NcclKeyOf(group),
                IsFailedPrecondition(absl::StrCat("of ", size, " bytes")));
  }
}

TEST(NoNcclHereTest, ThereIsNoNcclAndTheReasonIsTheBuild) {
  EXPECT_FALSE(HasNccl());
  EXPECT_THAT(NcclHere(), StatusIs(absl::StatusCode::kUnimplemented,
                                   "this was built without nccl.h"));
}

// Tests all-reduces among GPUs, or NCCL's double, whose members call on
// separate threads, turns, and a communicator that fails on another thread.

constexpr int64_t kElements = 9;

bool UsesNccl(absl::string_view implementation) {
  return absl::StrContains(implementation, "Nccl");
}

class Tasks {
 public:
  explicit Tasks(std::string implementation = "NcclReduce")
      : tasks_(OptionsFor(implementation)),
        request_(tasks_.Request(AllReduce{}, DType::kUint8, kElements)) {
    request_.impl_details.implementation = std::move(implementation);
  }

  FakeNcclTasks& tasks() { return tasks_; }

  // Runs `member` on a thread for each rank, and waits for all.
  template <typename Function>
  void RunMembers(Function member) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      threads.emplace_back([&, rank] { member(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Starts an all-reduce in place.
  void StartReduce(int rank, Tensor* tensor, StatusCallback done) {
    CollectiveRequest request = request_;
    request.rank = rank;
    tasks_.executor(rank, step_)
        ->ExecuteAsync(
            {.device = &tasks_.device(rank),
             .request = std::make_shared<const CollectiveRequest>(request),
             .input = *tensor,
             .output = tensor},
            std::move(done));
  }

  // Runs an all-reduce in place, and waits for its end.
  absl::Status Reduce(int rank, Tensor tensor) {
    BlockingCounter is_done(1);
    absl::Status ended;
    StartReduce(rank, &tensor, [&](absl::Status status) {
      ended = std::move(status);
      is_done.DecrementCount();
    });
    is_done.Wait();
    return ended;
  }

  // Expects the right sum in the next generation of the group, and in another
  // step. REQUIRES: no call is under way.
  void ExpectNextGenerationRuns() {
    tasks_.EndGroup(absl::AbortedError("formed again"));
    ++step_;
    RunMembers([this](int rank) { ExpectSum(rank, Allocate(rank), 1); });
  }

  // Reduces with `value` as input, and expects the sum.
  void ExpectSum(int rank, Tensor tensor, int value) {
    const std::vector<uint8_t> values(kElements, value);
    EXPECT_THAT(tasks_.gpus(rank).CopyAsync(
                    tensor.mutable_data(), values.data(), kElements,
                    tasks_.device(rank).compute_stream()),
                IsOk());
    EXPECT_THAT(Reduce(rank, tensor), IsOk());
    EXPECT_THAT(*tasks_.gpus(rank).Read(tensor.data(), kElements),
                Each(value * tasks_.size()));
  }

  Tensor Allocate(int rank) {
    return *tasks_.device(rank).Allocate(request_.dtype, request_.shape);
  }

 private:
  // Returns two tasks, or three devices on one GPU if NCCL is not used.
  FakeNcclTasks::Options OptionsFor(const std::string& implementation) {
    FakeNcclTasks::Options options = {.num_tasks = 2,
                                      .environment = &environment_.get()};
    if (UsesNccl(implementation)) return options;
    options.num_tasks = options.gpus_per_task = 1;
    options.devices_per_gpu = 3;
    options.tasks_with_nccl = 0;
    return options;
  }

  const DefaultEnvironment environment_{/*num_workers=*/2};
  FakeNcclTasks tasks_;
  CollectiveRequest request_;
  int64_t step_ = 1;
};

// Same as NcclThenRing, in five chunks.
REGISTER_COLLECTIVE(RingAfterNccl,
                    NcclThenFactory("RingReduce", /*chunk_bytes=*/2));

class GpuThreadsTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(NcclAndSchedules, GpuThreadsTest,
                         Values("NcclReduce", "RingAfterNccl", "GpuLocalReduce",
                                "RingReduce", "DoubleTreeReduce"));

TEST_P(GpuThreadsTest, EveryMemberGetsEverySum) {
  Tasks group(GetParam());
  group.RunMembers([&](int rank) {
    const Tensor tensor = group.Allocate(rank);
    for (int run = 1; run <= 100; ++run) {
      group.ExpectSum(rank, tensor, run % 40);
    }
  });
  EXPECT_THAT(group.tasks().gpus(0).Mistakes(), IsEmpty());
  EXPECT_THAT(group.tasks().network().Mistakes(), IsEmpty());
}

// More calls than may be under way at a time.
TEST(NcclThreadsTest, ManyCallsAtOnceAllEnd) {
  constexpr int kNumCalls = 5 * NcclGroup::kMostRunning;
  Tasks group;
  group.RunMembers([&](int rank) {
    Tensor tensor = group.Allocate(rank);
    // Forms the group first: earlier calls may be launched in any order.
    EXPECT_THAT(group.Reduce(rank, tensor), IsOk());
    BlockingCounter are_done(kNumCalls);
    for (int call = 0; call < kNumCalls; ++call) {
      group.StartReduce(rank, &tensor, [&](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
        are_done.DecrementCount();
      });
    }
    are_done.Wait();
  });
  EXPECT_LE(group.tasks().network().counts().most, NcclGroup::kMostRunning);
  EXPECT_THAT(group.tasks().network().Mistakes(), IsEmpty());
}

// Calls `fail` before call `num_good` of one member. Returns the status of each
// member's last call.
template <typename Function>
std::vector<absl::Status> LastStatuses(Tasks& group, int num_good,
                                       Function fail) {
  constexpr int kNumCalls = 22;
  std::vector<absl::Status> last(group.tasks().size());
  group.RunMembers([&](int rank) {
    const Tensor tensor = group.Allocate(rank);
    for (int run = 0; run < kNumCalls; ++run) {
      if (rank == num_good % group.tasks().size() && run == num_good) fail();
      last[rank] = group.Reduce(rank, tensor);
    }
  });
  EXPECT_THAT(group.tasks().network().Mistakes(), IsEmpty());
  return last;
}

TEST_P(GpuThreadsTest, AnAbortEndsAllCallsWheneverItComes) {
  // Tasks that have not met yet do not learn of an abort.
  for (int num_good = UsesNccl(GetParam()) ? 1 : 0; num_good < 20; ++num_good) {
    Tasks group(GetParam());
    const auto abort = [&] {
      group.tasks()
          .executor(num_good % group.tasks().size())
          ->StartAbort(absl::AbortedError("enough"));
    };
    EXPECT_THAT(LastStatuses(group, num_good, abort),
                Each(IsAborted("enough")));
    group.ExpectNextGenerationRuns();
  }
}

class NcclErrorsTest : public GpuThreadsTest {};
INSTANTIATE_TEST_SUITE_P(OneAndHybrid, NcclErrorsTest,
                         Values("NcclReduce", "RingAfterNccl"));

TEST_P(NcclErrorsTest, AnErrorOfNcclEndsAllCallsWheneverItComes) {
  for (int num_good = 1; num_good < 10; ++num_good) {
    Tasks group(GetParam());
    const auto fail = [&] {
      group.tasks().network().FailAll(absl::InternalError("the link is down"));
    };
    EXPECT_THAT(LastStatuses(group, num_good, fail),
                Each(IsInternal("the link is down")));
    group.ExpectNextGenerationRuns();
  }
}

// The turns protect the counts, without a lock.
TEST(NcclThreadsTest, OneThreadAtATimeHasTheTurnOfAGpu) {
  constexpr int kGpus = 4;
  constexpr int kTurns = 2000;
  NcclTurns turns;
  std::vector<int> counts(kGpus);
  std::vector<std::thread> threads;
  for (int first = 0; first < kGpus; ++first) {
    threads.emplace_back([&turns, &counts, first] {
      const std::vector<int> gpus = {first, (first + 1) % kGpus};
      for (int turn = 0; turn < kTurns; ++turn) {
        BlockingCounter is_done(1);
        turns.Take(&gpus, gpus, [&] {
          for (const int gpu : gpus) ++counts[gpu];
          turns.GiveBack(&gpus);
          is_done.DecrementCount();
        });
        is_done.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(counts, Each(2 * kTurns));
}

// A communicator of one rank, ready for its next launch.
class OneRank {
 public:
  OneRank(SimulatedEnvironment& environment,
          std::shared_ptr<FakeNcclRuntime> nccl)
      : environment_(environment.get()), nccl_(std::move(nccl)) {
    absl::Status ended = absl::UnknownError("waits");
    Add(EmptyLaunch(&ended));
    EXPECT_THAT(ended, IsOk());
    group_->Ended();
  }

  void Add(NcclGroup::Launch launch) {
    AddLaunch(*group_, nccl_, /*num_gpus=*/1, environment_, cancellation_,
              std::move(launch));
  }
  void Break(absl::Status reason) { group_->Break(std::move(reason)); }

 private:
  const Environment environment_;
  const std::shared_ptr<FakeNcclRuntime> nccl_;
  const std::shared_ptr<Cancellation> cancellation_ =
      std::make_shared<Cancellation>();
  const std::shared_ptr<NcclGroup> group_ = std::make_shared<NcclGroup>();
};

// Another communicator has the turn meanwhile.
TEST(NcclThreadsTest, ALaunchThatWaitsForItsTurnFailsWheneverTheErrorComes) {
  constexpr int kNumRuns = 1000;
  constexpr int kNumDelays = 100;
  SimulatedEnvironment environment(1);
  FakeGpuRuntime gpus({.environment = environment.get()});
  const auto network = std::make_shared<FakeNcclNetwork>();
  const auto nccl = std::make_shared<FakeNcclRuntime>(network, &gpus);
  for (int run = 0; run < kNumRuns; ++run) {
    OneRank rank(environment, nccl);
    nccl->turns().Take(&environment, {0}, [] {});
    std::atomic<int> num_there = 0;
    const auto meet = [&num_there] {
      ++num_there;
      while (num_there < 2) std::this_thread::yield();
    };
    std::thread breaking([&] {
      absl::Status reason = absl::InternalError("the link is down");
      meet();
      // In some runs the error comes just when the launch begins to wait.
      for (int i = 0; i < run % kNumDelays; ++i) num_there.load();
      rank.Break(std::move(reason));
    });
    absl::Status ended = absl::UnknownError("waits");
    NcclGroup::Launch launch = EmptyLaunch(&ended);
    meet();
    rank.Add(std::move(launch));
    breaking.join();
    environment.RunAll();
    EXPECT_THAT(ended, IsInternal("the link is down"));
    nccl->turns().GiveBack(&environment);
    environment.RunAll();
    if (HasFailure()) return;
  }
  EXPECT_THAT(network->Mistakes(), IsEmpty());
}

}  // namespace nccl_communicators_test
}  // namespace tutti
