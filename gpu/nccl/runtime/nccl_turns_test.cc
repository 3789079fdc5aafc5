#include "gpu/nccl/runtime/nccl_turns.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/runtime/nccl_keys.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace nccl_turns_test {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

}  // namespace nccl_turns_test
}  // namespace tutti
