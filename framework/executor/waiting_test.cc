// Members that wait: for each other, and for other instances.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/executor/dependency_tracker.h"
#include "framework/executor/local_meeting.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace waiting_test {

using testing::ElementsAre;

// The members of one execution.
class LocalMeetingTest : public testing::Test {
 protected:
  LocalMeetingTest() {
    auto group = std::make_shared<CollGroupParams>();
    group->members.resize(3);
    const auto instance = std::make_shared<const CollInstanceParams>();
    for (int rank = 0; rank < 3; ++rank) {
      params_[rank].group = group;
      params_[rank].instance = instance;
      params_[rank].default_rank = rank;
      params_[rank].task = std::make_shared<const CollTaskParams>(
          CollTaskParams{.is_local = {true, true, true}, .num_local = 3});
      contexts_[rank].params = &params_[rank];
      contexts_[rank].execution = &execution_;
    }
  }

  absl::Span<const Attendee> Join(int rank) {
    return execution_.Shared<LocalMeeting>().Join(
        contexts_[rank],
        [this, rank](absl::Status status) { ended_[rank].push_back(status); });
  }

  void Adjourn(absl::Status status) {
    execution_.Shared<LocalMeeting>().Adjourn(std::move(status));
  }

  Execution execution_{InstanceId(), 1};
  CollectiveParams params_[3];
  CollectiveContext contexts_[3];
  std::vector<absl::Status> ended_[3];
};

TEST_F(LocalMeetingTest, TheLastToArriveGetsAllInRankOrder) {
  EXPECT_TRUE(Join(2).empty());
  EXPECT_TRUE(Join(0).empty());
  const auto all = Join(1);
  ASSERT_EQ(all.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(all[rank].context, &contexts_[rank]);
    EXPECT_TRUE(ended_[rank].empty());
  }
  Adjourn(absl::OkStatus());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ended_[rank], std::vector<absl::Status>{absl::OkStatus()});
  }
}

TEST_F(LocalMeetingTest, MembersWithDifferentRowsAllFail) {
  for (int rank = 0; rank < 3; ++rank) {
    CollInstanceParams instance = {.key = 7,
                                   .type = CollectiveType::kAllGather,
                                   .rows = {1, 2, rank == 1 ? 4 : 3},
                                   .rows_are_given = true};
    params_[rank].instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(Join(rank).empty());
  for (const auto& ended : ended_) {
    EXPECT_THAT(ended, ElementsAre(IsInvalidArgument(
                           "instance 7: rank 0 says that rank 2 has "
                           "3 rows, rank 1 that it has 4")));
  }
}

TEST_F(LocalMeetingTest, MembersWithDifferentRowsOfAnExchangeAllFail) {
  for (int rank = 0; rank < 3; ++rank) {
    CollInstanceParams instance = {.key = 7,
                                   .type = CollectiveType::kAllToAll,
                                   .rows = {1, 1, 1, 1, 1, 1},
                                   .rows_are_given = true,
                                   .rows_rank = rank};
    if (rank == 2) instance.rows[1] = 4;  // Sent to rank 1.
    params_[rank].instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(Join(rank).empty());
  for (const auto& ended : ended_) {
    EXPECT_THAT(ended, ElementsAre(IsInvalidArgument(
                           "instance 7: rank 2 sends 4 rows to rank 1, which "
                           "says that it receives 1")));
  }
}

TEST_F(LocalMeetingTest, WaitsForTheMembersOfThisProcessAlone) {
  for (CollectiveParams& params : params_) {
    params.task = std::make_shared<const CollTaskParams>(
        CollTaskParams{.is_local = {false, true, true}, .num_local = 2});
  }
  EXPECT_TRUE(Join(2).empty());
  const auto both = Join(1);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].context, &contexts_[1]);
  EXPECT_EQ(both[1].context, &contexts_[2]);
  Adjourn(absl::OkStatus());
  EXPECT_TRUE(ended_[0].empty());
}

TEST_F(LocalMeetingTest, ServesOneExecutionAfterAnother) {
  for (size_t round = 1; round <= 3; ++round) {
    EXPECT_TRUE(Join(2).empty());
    EXPECT_TRUE(Join(0).empty());
    ASSERT_EQ(Join(1).size(), 3u);
    Adjourn(absl::OkStatus());
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ended_[rank].size(), round);
    }
  }
  Join(0);
  execution_.cancellation.Cancel(absl::UnavailableError("lost"));
  EXPECT_EQ(ended_[0].back(), absl::UnavailableError("lost"));
}

TEST_F(LocalMeetingTest, AFailureEndsThoseThatAreHereAndThoseThatCome) {
  const absl::Status lost = absl::UnavailableError("lost");
  Join(2);
  Join(0);
  execution_.cancellation.Cancel(lost);
  EXPECT_EQ(ended_[0], std::vector<absl::Status>{lost});
  EXPECT_EQ(ended_[2], std::vector<absl::Status>{lost});
  EXPECT_TRUE(Join(1).empty());
  EXPECT_EQ(ended_[1], std::vector<absl::Status>{lost});
}

TEST_F(LocalMeetingTest, WhoComesAfterTheFailureIsEndedAtOnce) {
  const absl::Status lost = absl::UnavailableError("lost");
  execution_.cancellation.Cancel(lost);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(Join(rank).empty());
    EXPECT_EQ(ended_[rank], std::vector<absl::Status>{lost});
  }
}

TEST_F(LocalMeetingTest, AFailureAfterAllHaveComeIsTheirs) {
  Join(0);
  Join(1);
  EXPECT_EQ(Join(2).size(), 3u);
  execution_.cancellation.Cancel(absl::UnavailableError("late"));
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(ended_[rank].empty());
}

// Execution of many members, which are only counted.
class MeetingRound {
 public:
  explicit MeetingRound(int num_members) : contexts_(num_members) {
    auto group = std::make_shared<CollGroupParams>();
    group->members.resize(num_members);
    params_.group = std::move(group);
    params_.instance = std::make_shared<const CollInstanceParams>();
    params_.task = std::make_shared<const CollTaskParams>(
        CollTaskParams{.num_local = num_members});
    for (CollectiveContext& context : contexts_) {
      context.params = &params_;
      context.execution = &execution_;
    }
  }

  void Join(int rank) {
    LocalMeeting& meeting = execution_.Shared<LocalMeeting>();
    const auto all =
        meeting.JoinAt(static_cast<size_t>(rank), contexts_.size(),
                       contexts_[rank], [this](absl::Status status) {
                         ++(status.ok() ? num_ok_ : num_failed_);
                       });
    if (!all.empty()) meeting.Adjourn(absl::OkStatus());
  }

  // Fails the execution after `num_looks` reads of a counter.
  void FailAfter(int num_looks) {
    for (int i = 0; i < num_looks; ++i) num_ok_.load();
    execution_.cancellation.Cancel(absl::UnavailableError("lost"));
  }

  // Returns true if each member has ended once, and all with the same result.
  bool HasEndedWell() const {
    const int size = static_cast<int>(contexts_.size());
    return (num_ok_ == size && num_failed_ == 0) ||
           (num_ok_ == 0 && num_failed_ == size);
  }

 private:
  Execution execution_{InstanceId(), 1};
  CollectiveParams params_;
  std::vector<CollectiveContext> contexts_;
  std::atomic<int> num_ok_{0};
  std::atomic<int> num_failed_{0};
};

TEST(LocalMeetingConcurrencyTest, AFailureMayMeetAnybodyWhoArrives) {
  constexpr int kRounds = 5000;
  std::deque<MeetingRound> rounds;
  for (int i = 0; i < kRounds; ++i) rounds.emplace_back(/*num_members=*/3);
  std::barrier begin(3);
  std::thread first([&] {
    for (MeetingRound& round : rounds) {
      begin.arrive_and_wait();
      round.Join(0);
    }
  });
  std::thread others([&] {
    for (MeetingRound& round : rounds) {
      begin.arrive_and_wait();
      round.Join(1);
      round.Join(2);
    }
  });
  for (size_t i = 0; i < rounds.size(); ++i) {
    begin.arrive_and_wait();
    rounds[i].FailAfter(static_cast<int>(i % 500));
  }
  first.join();
  others.join();
  for (const MeetingRound& round : rounds) EXPECT_TRUE(round.HasEndedWell());
}

TEST(LocalMeetingConcurrencyTest, AFailureMayMeetTheEnd) {
  constexpr int kRounds = 3000;
  constexpr int kMembers = 200;
  std::deque<MeetingRound> rounds;
  for (int i = 0; i < kRounds; ++i) {
    rounds.emplace_back(kMembers);
    for (int rank = 1; rank < kMembers; ++rank) rounds.back().Join(rank);
  }
  std::barrier begin(2);
  std::thread last([&] {
    for (MeetingRound& round : rounds) {
      begin.arrive_and_wait();
      round.Join(0);
    }
  });
  for (size_t i = 0; i < rounds.size(); ++i) {
    begin.arrive_and_wait();
    rounds[i].FailAfter(static_cast<int>(i % 500));
  }
  last.join();
  for (const MeetingRound& round : rounds) EXPECT_TRUE(round.HasEndedWell());
}

constexpr InstanceId kA = {1, 1};
constexpr InstanceId kB = {1, 2};
constexpr InstanceId kC = {2, 1};

class DependencyTrackerTest : public testing::Test {
 protected:
  void Launch(InstanceId id, uint64_t number = 0) {
    {
      MutexLock lock(&mu_);
      launched_.insert({id, number});
    }
    tracker_.Launched(id);
  }

  // Records the number of the call when it becomes ready.
  StatusCallback Record(int call) {
    return [this, call](absl::Status) { ready_.push_back(call); };
  }

  bool HasLaunched(InstanceId id, uint64_t number) {
    MutexLock lock(&mu_);
    return launched_.contains({id, number});
  }

  Mutex mu_;
  absl::flat_hash_set<std::pair<InstanceId, uint64_t>> launched_
      ABSL_GUARDED_BY(mu_);
  std::vector<int> ready_;
  Cancellation cancellation_;
  DependencyTracker tracker_{[this](InstanceId id, uint64_t number) {
    return HasLaunched(id, number);
  }};
};

using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST_F(DependencyTrackerTest, WhoDependsOnNothingIsReadyAtOnce) {
  tracker_.WaitFor({}, 0, cancellation_, Record(1));
  EXPECT_THAT(ready_, ElementsAre(1));
}

TEST_F(DependencyTrackerTest, WhatWasLaunchedBeforeIsNotWaitedFor) {
  Launch(kA);
  Launch(kB);
  tracker_.WaitFor({kA, kB}, 0, cancellation_, Record(1));
  EXPECT_THAT(ready_, ElementsAre(1));
}

TEST_F(DependencyTrackerTest, ReadyRunsInsideTheLaunchThatWasMissing) {
  tracker_.WaitFor({kA}, 0, cancellation_, Record(1));
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kA);
  EXPECT_THAT(ready_, ElementsAre(1));
  Launch(kA);
  EXPECT_THAT(ready_, ElementsAre(1));
}

TEST_F(DependencyTrackerTest, SeveralDependenciesAreAllWaitedForInAnyOrder) {
  Launch(kB);
  tracker_.WaitFor({kA, kB, kC}, 0, cancellation_, Record(1));
  Launch(kC);
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kA);
  EXPECT_THAT(ready_, ElementsAre(1));
}

TEST_F(DependencyTrackerTest, ADependencyMayStandTwiceInTheList) {
  tracker_.WaitFor({kA, kB, kA, kA}, 0, cancellation_, Record(1));
  Launch(kA);
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kB);
  EXPECT_THAT(ready_, ElementsAre(1));
  tracker_.WaitFor({kA, kA}, 0, cancellation_, Record(2));
  EXPECT_THAT(ready_, ElementsAre(1, 2));
}

TEST_F(DependencyTrackerTest, WaitsForTheExecutionOfItsOwnNumber) {
  Launch(kA, 0);
  tracker_.WaitFor({kA}, 1, cancellation_, Record(1));
  tracker_.WaitFor({kA}, 2, cancellation_, Record(2));
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kA, 2);
  EXPECT_THAT(ready_, ElementsAre(2));
  Launch(kA, 1);
  EXPECT_THAT(ready_, ElementsAre(2, 1));
}

TEST_F(DependencyTrackerTest, OneLaunchMayMakeManyReady) {
  for (int call = 0; call < 4; ++call) {
    tracker_.WaitFor({kA}, 0, cancellation_, Record(call));
  }
  Launch(kA);
  EXPECT_THAT(ready_, UnorderedElementsAre(0, 1, 2, 3));
}

// Launch by one of two members, for example.
TEST_F(DependencyTrackerTest, ALaunchThatIsNotOfAllMembersWakesNobody) {
  tracker_.WaitFor({kA}, 0, cancellation_, Record(1));
  tracker_.Launched(kA);
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kA);
  EXPECT_THAT(ready_, ElementsAre(1));
}

// Deadlocks if the tracker calls with its lock held.
TEST_F(DependencyTrackerTest, ReadyMayComeBackToTheTracker) {
  tracker_.WaitFor({kA}, 0, cancellation_, [this](absl::Status) {
    tracker_.WaitFor({kB}, 0, cancellation_, Record(2));
    Launch(kB);
    Record(1)(absl::OkStatus());
  });
  Launch(kA);
  EXPECT_THAT(ready_, UnorderedElementsAre(1, 2));
}

TEST_F(DependencyTrackerTest, ALongChainNeedsNoStack) {
  constexpr int kLength = 100'000;
  const auto link = [](int i) { return InstanceId{1, i}; };
  for (int i = 0; i < kLength; ++i) {
    tracker_.WaitFor({link(i)}, 0, cancellation_,
                     [this, next = link(i + 1)](absl::Status) {
                       ready_.push_back(0);
                       Launch(next);
                     });
  }
  Launch(link(0));
  EXPECT_EQ(ready_.size(), size_t{kLength});
}

TEST_F(DependencyTrackerTest, CancelledWaitEndsWithTheReasonAndLeavesNothing) {
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> alive = held;
  absl::Status ended;
  tracker_.WaitFor({kA, kB, kA}, 0, cancellation_,
                   [held = std::move(held), &ended](absl::Status status) {
                     ended = std::move(status);
                   });
  cancellation_.Cancel(absl::AbortedError("enough"));
  EXPECT_EQ(ended, absl::AbortedError("enough"));
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(tracker_.num_waiting(), 0u);
  Launch(kA);
  Launch(kB);
}

TEST_F(DependencyTrackerTest, CancelledBeforeItWaitsEndsAtOnce) {
  cancellation_.Cancel(absl::AbortedError("enough"));
  absl::Status ended;
  tracker_.WaitFor({kA}, 0, cancellation_,
                   [&](absl::Status status) { ended = std::move(status); });
  EXPECT_EQ(ended, absl::AbortedError("enough"));
  EXPECT_EQ(tracker_.num_waiting(), 0u);
}

TEST_F(DependencyTrackerTest, WhatStillWaitsEndsWithTheTracker) {
  absl::Status ended;
  {
    DependencyTracker tracker([](InstanceId, uint64_t) { return false; });
    tracker.WaitFor({kA, kB}, 0, cancellation_,
                    [&](absl::Status status) { ended = std::move(status); });
    EXPECT_EQ(ended, absl::OkStatus());
  }
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled);
  cancellation_.Cancel(absl::AbortedError("late"));
}

TEST_F(DependencyTrackerTest, LaunchAndCancellationEndAWaitOnce) {
  constexpr uint64_t kRounds = 500;
  for (uint64_t round = 0; round < kRounds; ++round) {
    Cancellation cancellation;
    std::atomic<int> num_ended{0};
    tracker_.WaitFor({kA}, round, cancellation,
                     [&](absl::Status) { ++num_ended; });
    std::thread launch([&] { Launch(kA, round); });
    cancellation.Cancel(absl::AbortedError("enough"));
    launch.join();
    EXPECT_EQ(num_ended, 1);
  }
  EXPECT_EQ(tracker_.num_waiting(), 0u);
}

TEST_F(DependencyTrackerTest, NoLaunchIsMissedHoweverItMeetsTheWait) {
  constexpr int kRounds = 500;
  std::vector<std::atomic<int>> num_ready(kRounds);
  std::atomic<int> round_of_launches{0};
  std::atomic<int> round_of_waits{0};
  // Keeps both threads in the same round.
  const auto meet = [](std::atomic<int>& mine, std::atomic<int>& other) {
    const int round = ++mine;
    while (other < round) std::this_thread::yield();
  };
  std::thread launches([&] {
    for (int round = 0; round < kRounds; ++round) {
      meet(round_of_launches, round_of_waits);
      Launch(kA, static_cast<uint64_t>(round));
      Launch(kB, static_cast<uint64_t>(round));
    }
  });
  std::thread waits([&] {
    for (int round = 0; round < kRounds; ++round) {
      meet(round_of_waits, round_of_launches);
      tracker_.WaitFor(
          {kB, kA}, static_cast<uint64_t>(round), cancellation_,
          [&num_ready, round](absl::Status) { ++num_ready[round]; });
    }
  });
  launches.join();
  waits.join();
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(num_ready[round], 1) << "round " << round;
  }
}

}  // namespace waiting_test
}  // namespace tutti
