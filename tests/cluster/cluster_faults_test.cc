#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/ended_steps.h"
#include "framework/control/wire_codec.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/messages/control_codec.h"
#include "tests/cluster/cluster_resolve_testing.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace cluster_faults_test {

using absl::StatusCode;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using State = TaskHealth::State;

// Faults of tasks: detection, its delay, and recovery.
class ClusterFaultsTest : public ClusterResolveTest {
 protected:
  // Starts three tasks, two of which do not reach each other, nor join.
  void BeginParted(int a, int b) {
    options_ = {.num_tasks = 3};
    cluster_ = std::make_unique<SimulatedCluster>(options_);
    cluster_->Partition(a, b);
    for (int task : {0, 1, 2}) cluster_->Start(task);
    cluster_->RunFor(absl::Seconds(1));
  }

  std::vector<CallPtr> Request(const std::vector<int>& tasks, int size,
                               InstanceKey key = 1) {
    std::vector<CallPtr> calls;
    for (int task : tasks) {
      calls.push_back(
          cluster_->Request(task, 0, AllReduceOf(kGroup, size, key)));
    }
    return calls;
  }

  std::vector<CallPtr> Settle(const std::vector<int>& tasks,
                              InstanceKey key = 1) {
    auto calls = Request(tasks, static_cast<int>(tasks.size()), key);
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(calls, IsOk());
    return calls;
  }

  // Lets the tasks leave. Returns their results.
  std::vector<std::shared_ptr<absl::Status>> Leave(
      const std::vector<int>& tasks, absl::Duration limit) {
    std::vector<std::shared_ptr<absl::Status>> results;
    for (int task : tasks) {
      const auto result =
          std::make_shared<absl::Status>(absl::UnknownError("has not left"));
      results.push_back(result);
      cluster_->control(task).Leave(
          cluster_->Now() + limit,
          [result](absl::Status status) { *result = std::move(status); });
    }
    return results;
  }
  void ExpectAllLeave(const std::vector<int>& tasks) {
    const auto results = Leave(tasks, absl::Seconds(30));
    cluster_->RunFor(absl::Seconds(5));
    for (const auto& result : results) EXPECT_THAT(*result, IsOk());
  }

  absl::Status Check(int from, absl::string_view task) {
    absl::Status result = absl::UnknownError("not answered");
    cluster_->control(from).health().CheckHealth(
        task, absl::Seconds(1),
        [&result](absl::Status status) { result = std::move(status); });
    cluster_->RunFor(absl::Seconds(2));
    return result;
  }

  // Expects that all members of the groups that the task considers living do
  // live.
  void ExpectGroupsLive(int task) {
    if (!cluster_->is_alive(task)) return;
    for (const auto& group : cluster_->directory(task).Living()) {
      for (const CollGroupMember& member : group->members) {
        const int other = member.device.name.task;
        SCOPED_TRACE(absl::StrCat("task ", task, " knows a generation ",
                                  group->generation, " of group ", group->key,
                                  " with task ", other));
        ASSERT_TRUE(cluster_->is_alive(other));
        EXPECT_EQ(cluster_->Device(other, 0).incarnation,
                  member.device.incarnation);
        EXPECT_NE(cluster_->control(task).health().state(other), State::kLost);
      }
    }
  }
};

TEST_F(ClusterFaultsTest, AKilledMemberEndsItsGroupEverywhereAtOnce) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Begin({.num_tasks = 4, .seed = seed});
    const auto calls = Settle({0, 1, 2, 3});
    const CallPtr other = RequestAndRun(1, AllReduceOf(99, 1, 1));
    cluster_->Kill(3);
    cluster_->RunFor(absl::Milliseconds(10));
    for (int task : {0, 1, 2}) {
      EXPECT_THAT(
          GroupEnd(calls[task]),
          IsUnavailable("task 3 (host3:7000) was lost", "connection closed"));
    }
    EXPECT_THAT(GroupEnd(other), IsOk());
  }
}

class ManyTasksTest : public ClusterFaultsTest {
 protected:
  static constexpr int kNumTasks = 16;

  std::vector<CallPtr> BeginMany(uint64_t seed = 1) {
    Begin({.num_tasks = kNumTasks, .seed = seed});
    return Settle(AllTasks());
  }
  static std::vector<int> AllTasks() {
    std::vector<int> tasks;
    for (int task = 0; task < kNumTasks; ++task) tasks.push_back(task);
    return tasks;
  }
};

TEST_F(ManyTasksTest, EachWatchesThreeForAllItsGroups) {
  BeginMany();
  const CallPtr alone = RequestAndRun(1, AllReduceOf(99, 1, 1));
  cluster_->RunFor(absl::Seconds(2));
  for (int task : AllTasks()) {
    EXPECT_EQ(cluster_->control(task).health().num_watched(), 3u) << task;
  }
  cluster_->control(5).param_resolver()->EndGroup(
      kGroup, absl::CancelledError("enough"));
  cluster_->RunFor(absl::Seconds(2));
  for (int task : AllTasks()) {
    EXPECT_EQ(cluster_->control(task).health().num_watched(), 0u) << task;
  }
}

TEST_F(ManyTasksTest, EachIsToldAtOnceOfOneThatIsKilled) {
  for (int task : AllTasks()) {
    auto calls = BeginMany(static_cast<uint64_t>(task) + 1);
    cluster_->Kill(task);
    cluster_->RunFor(absl::Milliseconds(10));
    calls.erase(calls.begin() + task);
    ExpectGroupEnds(calls, IsUnavailable(cluster_->Label(task), "was lost",
                                         "connection closed"));
  }
}

TEST_F(ManyTasksTest, EachIsToldOfThoseThatAreSilentTogether) {
  auto calls = BeginMany();
  for (int task : {3, 4, 5, 6, 7}) cluster_->Stall(task, absl::Hours(1));
  cluster_->RunFor(absl::Seconds(5));
  calls.erase(calls.begin() + 3, calls.begin() + 8);
  ExpectGroupEnds(calls, IsUnavailable("was lost: silent for 4.8 s"));
}

// Its neighbours pass the end on.
TEST_F(ManyTasksTest, OneThatTheFirstCannotReachIsToldOfTheEnd) {
  const auto calls = BeginMany();
  cluster_->Partition(0, 8);
  cluster_->control(0).param_resolver()->EndGroup(
      kGroup, absl::CancelledError("enough"));
  cluster_->RunFor(absl::Milliseconds(20));
  ExpectGroupEnds(calls, StatusIs(StatusCode::kCancelled, HasSubstr("enough")));
}

// Hello and Goodbye go to the leader alone: four messages of each task for
// each, with the leader's own Hello.
TEST_F(ManyTasksTest, StartAndEndTakeSoManyMessages) {
  Begin({.num_tasks = kNumTasks});
  EXPECT_LE(cluster_->traffic().messages, 4 * kNumTasks);
  EXPECT_LE(cluster_->traffic_of(5).messages, 4);
  const int64_t before = cluster_->traffic().messages;
  ExpectAllLeave(AllTasks());
  EXPECT_LE(cluster_->traffic().messages - before, 4 * kNumTasks);
}

TEST_F(ManyTasksTest, HundredsMeetAndAreToldOfOneThatIsLost) {
  constexpr int kHundreds = 300;
  Begin({.num_tasks = kHundreds});
  std::vector<int> tasks;
  for (int task = 0; task < kHundreds; ++task) tasks.push_back(task);
  auto calls = Settle(tasks);
  EXPECT_LE(cluster_->traffic_of(0).messages, 8 * kHundreds);
  cluster_->Kill(150);
  cluster_->RunFor(absl::Milliseconds(20));
  calls.erase(calls.begin() + 150);
  ExpectGroupEnds(calls, IsUnavailable("task 150", "was lost"));
  for (int task : {1, 75, 225}) {
    EXPECT_LE(cluster_->traffic_of(task).messages, 40) << task;
  }
}

TEST_F(ManyTasksTest, AllLeaveThoughTheirLeadersAreLost) {
  for (int num_lost = 1; num_lost < kNumTasks; num_lost += 3) {
    BeginMany(static_cast<uint64_t>(num_lost));
    std::vector<int> tasks = AllTasks();
    tasks.pop_back();
    auto left = Leave(tasks, absl::Seconds(60));
    for (int task = 0; task < num_lost; ++task) {
      cluster_->RunFor(absl::Milliseconds(task));
      cluster_->Kill(task);
    }
    cluster_->RunFor(absl::Seconds(5));
    left.push_back(Leave({kNumTasks - 1}, absl::Seconds(60))[0]);
    cluster_->RunFor(absl::Seconds(20));
    for (int task = num_lost; task < kNumTasks; ++task) {
      EXPECT_EQ(*left[task], absl::OkStatus()) << task << " of " << num_lost;
    }
  }
}

TEST_F(ClusterFaultsTest, ASilentMemberIsLostWithinFiveSeconds) {
  Begin({.num_tasks = 3});
  const auto calls = Settle({0, 1, 2});
  cluster_->Stall(2, absl::Hours(1));
  cluster_->RunFor(absl::Seconds(3));
  EXPECT_THAT(GroupEnd(calls[0]), IsOk());
  cluster_->RunFor(absl::Seconds(2));
  for (int task : {0, 1}) {
    EXPECT_THAT(GroupEnd(calls[task]),
                IsUnavailable("task 2 (host2:7000) was lost: silent for "
                              "4.8 s"));
  }
}

TEST_F(ClusterFaultsTest, TheFastProfileNoticesSilenceWithinASecond) {
  Begin({.num_tasks = 2, .health = HealthProfile::Fast()});
  const auto calls = Settle({0, 1});
  cluster_->Stall(1, absl::Hours(1));
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_THAT(GroupEnd(calls[0]), IsUnavailable("silent for 0.9 s"));
}

TEST_F(ClusterFaultsTest, AStallOfThreeSecondsLosesNobody) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Begin({.num_tasks = 3, .seed = seed});
    const auto calls = Settle({0, 1, 2});
    cluster_->RunFor(absl::Milliseconds(20 * seed));
    cluster_->Stall(static_cast<int>(seed % 3), absl::Seconds(3));
    cluster_->RunFor(absl::Seconds(20));
    ExpectGroupEnds(calls, IsOk());
  }
}

TEST_F(ClusterFaultsTest, ALeaderKilledAtAnyTimeEndsCallsAndTheNextOneLeads) {
  for (int after_us = 0; after_us < 12'000; after_us += 173) {
    Begin({.num_tasks = 3, .seed = static_cast<uint64_t>(after_us) + 1});
    const auto calls = Request({0, 1, 2}, 3);
    cluster_->RunFor(absl::Microseconds(after_us));
    cluster_->Kill(0);
    cluster_->RunFor(absl::Seconds(12));
    for (int task : {1, 2}) {
      SCOPED_TRACE(absl::StrCat("task ", task, " after ", after_us, " us"));
      ASSERT_FALSE(calls[task]->waits());
      if (calls[task]->status().ok()) {
        EXPECT_THAT(GroupEnd(calls[task]), IsUnavailable("task 0"));
      } else {
        EXPECT_THAT(calls[task]->status(),
                    IsUnavailable("task 0 (host0:7000)"));
      }
    }
    const auto survivors = Settle({1, 2});
    EXPECT_EQ(survivors[0]->params().group->generation,
              survivors[1]->params().group->generation);
  }
}

// The first survivor to learn that the group has ended starts the next
// generation at once; so does the other. Neither needs to know yet that the
// leader is lost.
TEST_F(ClusterFaultsTest, SurvivorsOfTheLeaderFormTheNextGenerationAtOnce) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Begin({.num_tasks = 3, .seed = seed});
    const auto calls = Settle({0, 1, 2});
    cluster_->Kill(0);
    if (seed % 2 == 0) {
      while (GroupEnd(calls[1]).ok() && GroupEnd(calls[2]).ok()) {
        cluster_->RunFor(absl::Microseconds(10));
      }
    }
    for (int task : {1, 2}) {
      EndGroup(task, "go on");
    }
    const auto survivors = Settle({1, 2});
    EXPECT_EQ(survivors[0]->params().group->generation,
              survivors[1]->params().group->generation);
  }
}

TEST_F(ClusterFaultsTest, AGroupWithoutTheLostLeaderIsFormedAgainByTheNext) {
  Begin({.num_tasks = 4});
  const auto calls = Settle({2, 3});
  cluster_->Kill(0);
  cluster_->RunFor(absl::Milliseconds(20));
  ExpectGroupEnds(calls, IsUnavailable("task 0"));
  // Task 1 leads now; it had no contact with task 0 before.
  const auto again = Settle({2, 3});
  EXPECT_GT(again[0]->params().group->generation,
            calls[0]->params().group->generation);
  EXPECT_EQ(*cluster_->control(1).leadership().leader(), 1);
}

// Each leader counts generations separately.
TEST_F(ClusterFaultsTest, ALateEndOfAFormerLeadersGroupLeavesTheNextOneAlone) {
  Begin({.num_tasks = 4});
  const auto calls = Settle({1, 2});
  const uint64_t former = calls[0]->params().group->generation;
  cluster_->Kill(0);
  cluster_->RunFor(absl::Seconds(1));
  Request({3}, 2);  // Learns that task 1 leads now.
  cluster_->RunFor(absl::Seconds(1));
  const auto first = Request({3}, 2);
  cluster_->RunFor(absl::Seconds(1));
  proto::ControlRequest request;
  request.mutable_end_group()->set_group_key(kGroup);
  request.mutable_end_group()->set_generation(former);
  request.mutable_end_group()->mutable_reason()->set_code(10);
  EXPECT_THAT(Send(2, 1, request), IsOk());
  EXPECT_TRUE(first[0]->waits());
  const auto second = Request({2}, 2);
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& call : {first[0], second[0]}) {
    ASSERT_THAT(call->status(), IsOk());
    EXPECT_GT(call->params().group->generation, former);
  }
}

TEST_F(ClusterFaultsTest, TheNextGenerationFormsWithTheRestartedTask) {
  for (int killed : {0, 1, 3}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      Begin({.num_tasks = 4, .seed = seed});
      const auto calls = Settle({0, 1, 2, 3});
      cluster_->Restart(killed);
      cluster_->RunFor(absl::Milliseconds(500));
      ASSERT_EQ(cluster_->join_status(killed), absl::OkStatus());
      const auto again = Settle({0, 1, 2, 3});
      for (const CallPtr& call : again) {
        EXPECT_GT(call->params().group->generation,
                  calls[0]->params().group->generation);
        EXPECT_EQ(call->params().group->members[killed].device,
                  cluster_->Device(killed, 0));
      }
      for (int task = 0; task < 4; ++task) {
        EXPECT_EQ(*cluster_->control(task).leadership().leader(),
                  killed == 0 ? 1 : 0);
      }
    }
  }
}

// A thread may report the new process before another thread has finished
// reporting the loss of the old one.
TEST_F(ClusterFaultsTest, ALateWordOfAnOldProcessSparesTheNewOne) {
  Begin({.num_tasks = 2});
  Settle({0, 1});
  const ControlCaller former{1, cluster_->Device(1, 0).incarnation};
  cluster_->Restart(1);
  cluster_->RunFor(absl::Seconds(1));
  const auto calls = Settle({0, 1});
  const CallPtr waits = RequestAndRun(1, AllReduceOf(99, 2, 1));
  const auto report = [&](const ControlCaller& process) {
    Resolver(0).OnTaskLost(process, absl::UnavailableError("gone"));
    cluster_->RunFor(absl::Seconds(1));
  };
  report(former);
  EXPECT_THAT(GroupEnd(calls[0]), IsOk());
  EXPECT_THAT(GroupEnd(calls[1]), IsOk());
  EXPECT_TRUE(waits->waits());
  report({1, cluster_->Device(1, 0).incarnation});
  EXPECT_THAT(GroupEnd(calls[0]), StatusIs(StatusCode::kUnavailable, "gone"));
  EXPECT_THAT(waits->status(), StatusIs(StatusCode::kUnavailable, "gone"));
}

TEST_F(ClusterFaultsTest, NobodyWaitsForAGroupThatLacksALostTask) {
  for (const int killed : {0, 2}) {
    SCOPED_TRACE(absl::StrCat("task ", killed, " is killed"));
    Begin({.num_tasks = 3});
    const CallPtr first = RequestAndRun(1, AllReduceOf(kGroup, 3, 1));
    EXPECT_TRUE(first->waits());
    cluster_->Kill(killed);
    cluster_->RunFor(absl::Seconds(1));
    const CallPtr late = RequestAndRun(2 - killed, AllReduceOf(kGroup, 3, 1));
    ExpectEnds({first, late},
               IsUnavailable(
                   absl::StrCat("task ", killed, " (host", killed, ":7000)")));
    cluster_->Restart(killed);
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(Settle({0, 1, 2}), IsOk());
  }
}

TEST_F(ClusterFaultsTest, NobodyWaitsForALostTaskInAGroupNobodyKnowsYet) {
  using Fault = std::function<void(SimulatedCluster&)>;
  const std::vector<Fault> faults = {
      [](SimulatedCluster& cluster) { cluster.Kill(2); },
      [](SimulatedCluster& cluster) { cluster.Stall(2, absl::Hours(1)); }};
  // Group without the leader, and group with it.
  for (const std::vector<int>& tasks : {std::vector{1, 2}, {0, 2}}) {
    for (const Fault& fault : faults) {
      Begin({.num_tasks = 3});
      const CallPtr waits = Request({tasks[0]}, 2, /*key=*/1)[0];
      const CallPtr other = Request({tasks[1]}, 2, /*key=*/2)[0];
      cluster_->RunFor(absl::Seconds(5));  // Releases all delayed heartbeats.
      ASSERT_TRUE(waits->waits() && other->waits());
      fault(*cluster_);
      cluster_->RunFor(absl::Seconds(5));
      EXPECT_THAT(waits->status(),
                  IsUnavailable("task 2 (host2:7000) was lost"));
    }
  }
}

TEST_F(ClusterFaultsTest, AGroupFormedWithWhomAMemberHasLostEnds) {
  Begin({.num_tasks = 3});
  const auto before = Settle({1, 2});
  cluster_->Partition(1, 2);
  cluster_->RunFor(absl::Seconds(6));
  EXPECT_THAT(GroupEnd(before[0]), IsUnavailable("was lost"));
  // The leader reaches both tasks.
  std::vector<CallPtr> calls;
  for (int task : {1, 2}) {
    calls.push_back(cluster_->Request(task, 0, AllReduceOf(99, 2, 1)));
  }
  cluster_->RunFor(absl::Seconds(10));
  for (const CallPtr& call : calls) {
    ASSERT_FALSE(call->waits());
    const absl::Status end =
        call->status().ok() ? GroupEnd(call) : call->status();
    EXPECT_THAT(end, IsUnavailable("was lost"));
  }
}

TEST_F(ClusterFaultsTest, AGroupWithAProcessThatAnotherHasReplacedEnds) {
  BeginParted(1, 2);
  const auto calls = Settle({1, 2});  // The leader reaches both tasks.
  cluster_->Restart(2);
  cluster_->Heal(1, 2);
  cluster_->RunFor(absl::Seconds(2));
  EXPECT_THAT(GroupEnd(calls[0]),
              IsUnavailable("task 2 (host2:7000) was lost", "restarted"));
  cluster_->RunFor(absl::Seconds(10));
  EXPECT_EQ(cluster_->control(1).health().state(2), State::kUp);
}

TEST_F(ClusterFaultsTest, WhoeverTheLeaderHearsOfWhileAGroupWaitsIsWatched) {
  BeginParted(0, 2);
  const CallPtr waits = Request({1}, 3)[0];
  cluster_->RunFor(absl::Seconds(1));
  cluster_->Heal(0, 2);
  cluster_->RunFor(absl::Seconds(2));
  cluster_->Kill(2);
  cluster_->RunFor(absl::Seconds(10));
  EXPECT_THAT(waits->status(), IsUnavailable("task 2 (host2:7000) was lost"));
}

// Task 2 has lost the leader, task 1 still reaches it.
TEST_F(ClusterFaultsTest, NobodyWaitsAtALeaderThatDoesNotLeadAnyMore) {
  Begin({.num_tasks = 3});
  const auto before = Settle({1, 2});
  const CallPtr waits = RequestAndRun(1, AllReduceOf(99, 2, 1));
  const CallPtr of_other = RequestAndRun(2, AllReduceOf(98, 2, 1));
  cluster_->Partition(0, 2);
  cluster_->RunFor(absl::Seconds(6));
  EXPECT_THAT(GroupEnd(before[0]), IsUnavailable("was lost"));
  EXPECT_THAT(waits->status(), IsUnavailable("task 0 (host0:7000) was lost"));
}

// The leader is not a member, and forgets the group once the members know it.
TEST_F(ClusterFaultsTest, WhoHasNotHeardOfItsGroupDoesNotWaitForALostMember) {
  Begin({.num_tasks = 3,
         .min_delay = absl::Milliseconds(1),
         .max_delay = absl::Milliseconds(1)});
  const CallPtr cancelled = Request({2}, 2)[0];
  cluster_->RunFor(absl::Milliseconds(1));
  const CallPtr settled = Request({1}, 2)[0];
  cluster_->RunFor(absl::Microseconds(1500));
  cancelled->token->Cancel(absl::CancelledError("enough"));
  cluster_->RunFor(absl::Seconds(1));
  ASSERT_THAT(settled->status(), IsOk());
  ASSERT_THAT(cancelled->status(), StatusIs(StatusCode::kCancelled, "enough"));
  const CallPtr waits = Request({2}, 2, /*key=*/2)[0];
  cluster_->RunFor(absl::Seconds(5));
  cluster_->Kill(1);
  cluster_->RunFor(absl::Seconds(10));
  EXPECT_THAT(waits->status(), IsUnavailable("task 1 (host1:7000) was lost"));
}

TEST_F(ClusterFaultsTest, EndingAGroupJustAsItIsSettledEndsIt) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Begin({.num_tasks = 3, .seed = seed});
    const auto calls = Request({1, 2}, 2);
    cluster_->RunFor(absl::Microseconds(100) * static_cast<double>(seed % 25));
    EndGroup(2, "formed again");
    cluster_->RunFor(absl::Seconds(1));
    for (const CallPtr& call : calls) {
      if (call->waits()) continue;  // The other call came too late.
      const absl::Status end =
          call->status().ok() ? GroupEnd(call) : call->status();
      EXPECT_THAT(end, IsAborted("formed again")) << "seed " << seed;
    }
  }
}

TEST_F(ClusterFaultsTest, AGroupThatCanDoWithoutALostTaskWaitsOn) {
  Begin({.num_tasks = 3});
  const CallPtr first = RequestAndRun(1, AllReduceOf(kGroup, 2, 1));
  cluster_->Kill(2);
  cluster_->RunFor(absl::Seconds(1));
  const CallPtr last = RequestAndRun(0, AllReduceOf(kGroup, 2, 1));
  EXPECT_THAT(first->status(), IsOk());
  EXPECT_THAT(last->status(), IsOk());
}

TEST_F(ClusterFaultsTest, CallsOfALostTaskLeaveNothingAtTheLeader) {
  Begin({.num_tasks = 3});
  RequestAndRun(2, AllReduceOf(kGroup, 3, 1));
  ParamResolverLocal& led = Resolver(0).led();
  EXPECT_EQ(led.num_groups(), 1u);
  cluster_->Kill(2);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(led.num_groups(), 0u);
}

TEST_F(ClusterFaultsTest, AProcessThatWasLostIsRefusedAndToldWhy) {
  Begin({.num_tasks = 3});
  const auto calls = Settle({0, 1, 2});
  cluster_->Stall(2, absl::Seconds(8));
  cluster_->RunFor(absl::Seconds(7));
  const auto survivors = Settle({0, 1});
  cluster_->RunFor(absl::Seconds(2));
  EXPECT_THAT(GroupEnd(calls[2]), Not(IsOk()));
  const auto zombie = cluster_->Request(2, 0, AllReduceOf(kGroup, 3, 1));
  cluster_->RunFor(absl::Seconds(10));
  EXPECT_THAT(
      zombie->status(),
      IsFailedPrecondition("task 2 (host2:7000) was lost: silent for 4.8 s"));
  ExpectGroupEnds(survivors, IsOk());
  proto::ControlRequest request;
  request.mutable_hello()->set_num_tasks(3);
  EXPECT_THAT(
      Send(2, 0, request),
      IsFailedPrecondition("silent for 4.8 s", " ago", "must start again"));
}

TEST_F(ClusterFaultsTest, APartitionEndsTheGroupOnBothSides) {
  Begin({.num_tasks = 3});
  const auto calls = Settle({0, 1, 2});
  cluster_->Partition(1, 2);
  cluster_->RunFor(absl::Seconds(6));
  ExpectGroupEnds(calls, IsUnavailable("was lost"));
  // The leader still reaches both tasks.
  Settle({0, 1});
}

TEST_F(ClusterFaultsTest, CheckHealthTellsApartWhatCanBeWrong) {
  Begin({.num_tasks = 4});
  EXPECT_THAT(Check(0, "0"), IsOk());
  EXPECT_THAT(Check(0, "1"), IsOk());
  EXPECT_THAT(Check(0, "/job:worker/replica:0/task:2"), IsOk());
  for (const char* name : {"4", "-1", "", "x", "/job:other/replica:0/task:1"}) {
    EXPECT_THAT(Check(0, name), IsInvalidArgument("is no task"));
  }
  cluster_->Stall(1, absl::Seconds(3));
  EXPECT_THAT(Check(0, "1"), IsDeadlineExceeded("task 1"));
  cluster_->Kill(2);
  EXPECT_THAT(Check(0, "2"), IsUnavailable("task 2"));
  // Task 3 answers before it has sent Hello to task 0.
  cluster_->Partition(0, 3);
  cluster_->Restart(3);
  cluster_->RunFor(absl::Seconds(1));
  cluster_->Heal(0, 3);
  absl::Status restarted;
  cluster_->control(0).health().CheckHealth(
      "3", absl::Seconds(1), [&](absl::Status status) { restarted = status; });
  cluster_->RunFor(absl::Seconds(2));
  EXPECT_THAT(restarted, AnyOf(IsOk(), IsFailedPrecondition("restarted")));
}

TEST_F(ClusterFaultsTest, DevicesOfARestartedTaskAreRefusedUntilAGroupHasThem) {
  Begin({.num_tasks = 3});
  const std::string name = cluster_->Device(2, 0).name.ToString();
  const auto get = [&](int task) {
    return cluster_->control(task).device_resolver()->GetDeviceAttributes(name);
  };
  EXPECT_EQ(*get(0), cluster_->Device(2, 0));
  EXPECT_THAT(
      cluster_->control(0).device_resolver()->GetTaskDevices("/job:worker"),
      IsInvalidArgument("/job:worker"));
  cluster_->Restart(2);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_THAT(get(0), IsFailedPrecondition("task 2 (host2:7000) restarted"));
  EXPECT_EQ(*get(2), cluster_->Device(2, 0));
  Settle({0, 1, 2});
  EXPECT_EQ(*get(0), cluster_->Device(2, 0));
}

TEST_F(ClusterFaultsTest, JoinWaitsForLateTasksAndSaysWhoIsMissing) {
  cluster_ = std::make_unique<SimulatedCluster>(
      SimulatedCluster::Options{.num_tasks = 3});
  cluster_->Start(0);
  cluster_->RunFor(absl::Seconds(10));
  EXPECT_EQ(cluster_->join_status(0), std::nullopt);
  cluster_->Start(2);
  cluster_->RunFor(absl::Seconds(10));
  cluster_->Start(1);
  cluster_->RunFor(absl::Seconds(1));
  for (int task : {0, 1, 2}) {
    EXPECT_EQ(cluster_->join_status(task), absl::OkStatus());
  }
  EXPECT_THAT(cluster_->progress(0),
              ElementsAre(ElementsAre(1, 2), ElementsAre(1), ElementsAre()));
}

TEST_F(ClusterFaultsTest, JoinGivesUpNamingWhoIsMissing) {
  cluster_ = std::make_unique<SimulatedCluster>(
      SimulatedCluster::Options{.num_tasks = 4});
  for (int task : {0, 2}) cluster_->Start(task, absl::Seconds(30));
  cluster_->RunFor(absl::Seconds(31));
  EXPECT_THAT(*cluster_->join_status(0),
              StatusIs(StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("waited 30.0 s for task 1 (host1:7000), "
                                       "task 3 (host3:7000)"),
                             Not(HasSubstr("task 2")))));
}

TEST_F(ClusterFaultsTest, TasksWithListsOfDifferentLengthRefuseEachOther) {
  options_ = {.num_tasks = 3, .has_shorter_list = 1};
  cluster_ = std::make_unique<SimulatedCluster>(options_);
  cluster_->Start(0);
  cluster_->Start(1);
  cluster_->RunFor(absl::Seconds(1));
  // Either task may get the first request.
  const auto says = AnyOf(
      "task 1 (host1:7000) has a cluster of 2 tasks, "
      "task 0 (host0:7000) one of 3",
      "task 0 (host0:7000) has a cluster of 3 tasks, "
      "task 1 (host1:7000) one of 2");
  for (int task : {0, 1}) {
    ASSERT_TRUE(cluster_->join_status(task).has_value()) << task;
    EXPECT_THAT(*cluster_->join_status(task),
                StatusIs(StatusCode::kFailedPrecondition, says));
  }
}

TEST_F(ClusterFaultsTest, ARestartedTaskJoinsThoughAnotherIsLost) {
  Begin({.num_tasks = 4});
  Settle({0, 1, 2, 3});
  cluster_->Kill(3);
  cluster_->RunFor(absl::Milliseconds(50));
  cluster_->Restart(1);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(cluster_->join_status(1), absl::OkStatus());
  Settle({0, 1, 2});
}

TEST_F(ClusterFaultsTest, AllTasksThatRefreshGoOnFromTheSameStep) {
  Begin({.num_tasks = 3});
  constexpr int64_t kGraph = 5;
  const auto sequence = [&](int task) -> StepSequenceDistributed& {
    return *cluster_->control(task).step_sequence();
  };
  const auto refresh = [&](int task) {
    absl::Status status = absl::UnknownError("not answered");
    sequence(task).RefreshStepIdSequenceAsync(
        kGraph, [&](absl::Status answer) { status = std::move(answer); });
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_THAT(status, IsOk());
    return sequence(task).NextStepId(kGraph);
  };
  EXPECT_EQ(sequence(1).NextStepId(kGraph), kInvalidStepId);
  const int64_t first = refresh(2);
  EXPECT_GE(first, 0);
  EXPECT_EQ(refresh(0), first);
  EXPECT_EQ(refresh(1), first);
  for (int task : {0, 1, 2}) {
    sequence(task).RetireStepId(kGraph, first);
    EXPECT_EQ(sequence(task).NextStepId(kGraph), first + 1);
  }
  // Simulates that task 1 has another step id than the other tasks.
  sequence(1).RetireStepId(kGraph, first);
  EXPECT_EQ(sequence(1).NextStepId(kGraph), kInvalidStepId);
  const int64_t second = refresh(1);
  EXPECT_NE(second, first);
  EXPECT_EQ(refresh(0), second);
  EXPECT_EQ(refresh(2), second);
  // A restarted task begins a round that the other tasks then join.
  cluster_->Restart(2);
  cluster_->RunFor(absl::Seconds(1));
  const int64_t third = refresh(2);
  EXPECT_NE(third, second);
  EXPECT_EQ(refresh(0), third);
  EXPECT_EQ(refresh(1), third);
}

TEST_F(ClusterFaultsTest, AStepSequenceQuestionRepeatedBeginsNoRound) {
  Begin({.num_tasks = 2});
  std::vector<int64_t> ids;
  proto::ControlRequest request;
  request.mutable_step_sequence()->set_graph_key(5);
  for (uint64_t number : {1, 1, 2, 2, 3}) {
    request.mutable_step_sequence()->set_number(number);
    ids.push_back(Send(1, 0, request)->step_sequence().step_id());
  }
  ASSERT_EQ(ids.size(), 5u);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_NE(ids[1], ids[2]);
  EXPECT_EQ(ids[2], ids[3]);
  EXPECT_NE(ids[3], ids[4]);
}

// Random faults and calls: once faults and deadlines are over, nothing waits,
// and the remaining tasks can continue.
TEST_F(ClusterFaultsTest, NoCallWaitsForEver) {
  constexpr int kTasks = 4;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Begin({.num_tasks = kTasks, .seed = seed});
    std::mt19937_64 draw(seed);
    std::vector<std::pair<int, CallPtr>> calls;
    for (int round = 0; round < 12; ++round) {
      for (int task = 0; task < kTasks; ++task) {
        if (!cluster_->is_alive(task) || draw() % 4 == 0) continue;
        const GroupKey key = static_cast<GroupKey>(draw() % 2);
        auto call = cluster_->Request(
            task, 0,
            AllReduceOf(key, key == 0 ? kTasks : 2,
                        static_cast<InstanceKey>(draw() % 3)));
        calls.emplace_back(task, std::move(call));
      }
      cluster_->RunFor(absl::Microseconds(draw() % 20'000));
      const int victim = static_cast<int>(draw() % kTasks);
      switch (draw() % 8) {
        case 0:
          if (cluster_->is_alive(victim) && round % 3 == 0) {
            cluster_->Kill(victim);
          }
          break;
        case 1:
          cluster_->Restart(victim);
          break;
        case 2:
          if (cluster_->is_alive(victim)) {
            cluster_->Stall(victim, absl::Milliseconds(draw() % 7000));
          }
          break;
        case 3:
          cluster_->Partition(victim, (victim + 1) % kTasks);
          break;
        case 4:
          cluster_->Heal(victim, (victim + 1) % kTasks);
          break;
        case 5:
          if (cluster_->is_alive(victim)) {
            Resolver(victim).EndGroup(static_cast<GroupKey>(draw() % 2),
                                      absl::AbortedError("at will"));
          }
          break;
        default:
          if (!calls.empty()) {
            calls[draw() % calls.size()].second->token->Cancel(
                absl::CancelledError("at will"));
          }
      }
      if (draw() % 3 == 0) cluster_->RunFor(absl::Seconds(draw() % 4));
    }
    for (int a = 0; a < kTasks; ++a) {
      for (int b = 0; b < a; ++b) cluster_->Heal(a, b);
    }
    cluster_->RunFor(absl::Seconds(30));
    for (int task = 0; task < kTasks; ++task) ExpectGroupsLive(task);
    // Waits for members have no limit, but their callers do.
    for (auto& [task, call] : calls) {
      call->token->Cancel(absl::DeadlineExceededError("waited too long"));
    }
    cluster_->RunFor(absl::Seconds(10));
    for (int task = 0; task < kTasks; ++task) {
      if (!cluster_->is_alive(task)) continue;
      ParamResolverDistributed& resolver =
          *cluster_->control(task).param_resolver();
      EXPECT_EQ(resolver.num_waiting(), 0u);
      EXPECT_EQ(resolver.leader().num_waiting(), 0u);
    }
    for (const auto& [task, call] : calls) {
      EXPECT_LE(call->answers.size(), 1u);
    }
  }
}

// Executions that a member gives up before their instance is settled: no other
// member waits for it.

constexpr CallNumber kFirst = {.step_id = 5, .execution = 0};

const absl::Status kReason = absl::DeadlineExceededError("task 1 had no time");

// A group of a simulated cluster, with one device of each task, whose members
// give up executions.
class GivenUpTest : public ClusterResolveTest {
 protected:
  void Begin(SimulatedCluster::Options options) {
    size_ = options.num_tasks;
    ClusterResolveTest::Begin(options);
  }

  CallPtr Request(int task, CallNumber number = kFirst, InstanceKey key = 1) {
    return cluster_->Request(task, 0, AllReduceOf(kGroup, size_, key), number);
  }

  CallPtr RequestAndRun(int task, CallNumber number = kFirst,
                        InstanceKey key = 1) {
    CallPtr call = Request(task, number, key);
    cluster_->RunFor(absl::Seconds(1));
    return call;
  }

  // Acts as an executor whose execution fails.
  void GiveUp(int task, const CallPtr& call, CallNumber number = kFirst,
              InstanceKey key = 1) {
    call->token->Cancel(kReason);
    GiveUpAs(task, kReason, number, key);
  }
  void GiveUpAs(int task, const absl::Status& reason,
                CallNumber number = kFirst, InstanceKey key = 1) {
    Resolver(task).GiveUp({kGroup, key}, number, reason);
  }

  // Sends the message by which `from` gives up an execution of step 5. Returns
  // the status of the answer.
  absl::Status SendAs(int from, int to, uint64_t execution) {
    proto::ControlRequest request;
    proto::CancelExecution* const cancel = request.mutable_cancel_execution();
    *cancel->mutable_key() = EncodeKey({.step = kFirst.step_id,
                                        .group = kGroup,
                                        .instance = 1,
                                        .execution = execution});
    *cancel->mutable_reason() = EncodeError(kReason);
    return Send(from, to, request).status();
  }

  // Calls on all tasks of the group and expects that the instance is settled.
  void Settle(InstanceKey key, CallNumber number) {
    std::vector<CallPtr> calls;
    for (int task = 0; task < size_; ++task) {
      calls.push_back(Request(task, number, key));
    }
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(calls, IsOk());
  }

  // Makes the task learn of the leader's loss, by a call of another step.
  void LetFindLeaderLost(int task) {
    const CallPtr call = Request(task, {.step_id = 4});
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_THAT(call->status(), IsUnavailable(cluster_->Label(0)));
  }

  int size_ = 0;  // Size of the group.
};

// A call's deadline may pass during its callback; its message must then name
// the reason.
TEST_F(GivenUpTest, ACallThatIsBeingToldSaysWhatItIsTold) {
  Begin({.num_tasks = 3});
  auto& resolver = Resolver(1);
  const auto request = std::make_shared<const CollectiveRequest>(
      AllReduceOf(kGroup, size_, /*instance_key=*/1));
  std::string said;
  resolver.CompleteInstanceAsync(
      cluster_->Device(1, 0), request, kFirst, /*cancellation=*/nullptr,
      [&](const auto&) { said = resolver.DescribeWaiting(*request); });
  cluster_->RunFor(absl::Seconds(1));
  GiveUpAs(0, kReason);
  cluster_->RunFor(absl::Milliseconds(10));
  EXPECT_EQ(said, kReason.message());
  EXPECT_EQ(resolver.DescribeWaiting(*request), "");
}

// Task 0 leads; task 2 calls after the end.
TEST_F(GivenUpTest, EndsOnAllTasksAlsoForThoseThatComeLate) {
  for (int culprit : {0, 1}) {
    SCOPED_TRACE(absl::StrCat("task ", culprit, " gives up"));
    Begin({.num_tasks = 3});
    const CallPtr waiting = Request(1 - culprit);
    const CallPtr given_up = RequestAndRun(culprit);
    GiveUp(culprit, given_up);
    cluster_->RunFor(absl::Milliseconds(10));
    EXPECT_EQ(waiting->status(), kReason);
    const CallPtr late = Request(2);
    cluster_->RunFor(absl::Milliseconds(10));
    EXPECT_EQ(late->status(), kReason);
    Settle(1, {.step_id = 6});
  }
}

TEST_F(GivenUpTest, EndsInAGroupThatIsFormedAndLeavesItAlone) {
  Begin({.num_tasks = 3});
  Settle(1, {.step_id = 4});
  const CallPtr waiting = Request(2, kFirst, /*key=*/2);
  const CallPtr given_up = RequestAndRun(1, kFirst, /*key=*/2);
  GiveUp(1, given_up, kFirst, /*key=*/2);
  cluster_->RunFor(absl::Milliseconds(10));
  EXPECT_EQ(waiting->status(), kReason);
  const CallPtr late = Request(0, kFirst, /*key=*/2);
  EXPECT_EQ(late->status(), kReason);
  Settle(2, {.step_id = 6});
  EXPECT_EQ(cluster_->directory(0).Living().size(), 1u);
}

TEST_F(GivenUpTest, CallsOfOtherExecutionsWaitOn) {
  Begin({.num_tasks = 3});
  constexpr CallNumber kSecond = {.step_id = 5, .execution = 1};
  constexpr CallNumber kNextStep = {.step_id = 6, .execution = 0};
  std::vector<CallPtr> others = {Request(0, kSecond), Request(1, kSecond),
                                 Request(1, kNextStep)};
  const CallPtr given_up = RequestAndRun(1);
  GiveUp(1, given_up);
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& other : others) EXPECT_TRUE(other->waits());
  others.push_back(Request(2, kSecond));
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& other : others) EXPECT_THAT(other->status(), IsOk());
}

TEST_F(GivenUpTest, ATaskThatStartsLaterIsTold) {
  size_ = 3;
  cluster_ = std::make_unique<SimulatedCluster>(
      SimulatedCluster::Options{.num_tasks = 3});
  for (int task : {0, 1}) cluster_->Start(task);
  cluster_->RunFor(absl::Seconds(1));
  GiveUp(1, Request(1));
  cluster_->RunFor(absl::Seconds(20));
  cluster_->Start(2);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(RequestAndRun(2)->status(), kReason);
}

TEST_F(GivenUpTest, TheNextLeaderIsToldIfTheFirstDies) {
  Begin({.num_tasks = 4});
  cluster_->Stall(0, absl::Seconds(60));
  const CallPtr given_up = Request(2);
  GiveUp(2, given_up);
  cluster_->RunFor(absl::Seconds(1));
  cluster_->Kill(0);
  LetFindLeaderLost(3);
  const CallPtr late = RequestAndRun(3);
  EXPECT_EQ(late->status(), kReason);
}

// Calls made at the former leader, before all members had called.
TEST_F(GivenUpTest, WhoComesAfterTheLeaderWasLostDoesNotWaitForThoseBefore) {
  Begin({.num_tasks = 4});
  size_ = 3;  // Without the leader.
  const CallPtr first = RequestAndRun(1);
  cluster_->Kill(0);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_THAT(first->status(), IsUnavailable(cluster_->Label(0)));
  GiveUp(1, first);
  LetFindLeaderLost(2);
  const CallPtr late = RequestAndRun(2);
  EXPECT_EQ(late->status(), kReason);
}

TEST_F(GivenUpTest, WhoComesAfterItsGroupFailedDoesNotWaitForThoseBefore) {
  Begin({.num_tasks = 3});
  const CallPtr first = RequestAndRun(1);
  EndGroup(1, "enough");
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(first->status(), absl::AbortedError("enough"));
  GiveUpAs(1, first->status());
  cluster_->RunFor(absl::Seconds(1));
  for (int task : {0, 2}) {
    const CallPtr late = RequestAndRun(task);
    EXPECT_EQ(late->status(), absl::AbortedError("enough"));
  }
}

// Settling an execution does not settle a concurrent one that was given up.
TEST_F(GivenUpTest, WhoComesWhenAnotherExecutionHasSettledItIsTold) {
  Begin({.num_tasks = 3});
  GiveUp(1, Request(1));
  cluster_->RunFor(absl::Seconds(1));
  Settle(1, {.step_id = 6});
  EXPECT_EQ(Request(2)->status(), kReason);
}

// Task 1 does not know yet that the group has ended, and is refused; task 0
// waits in the next generation.
TEST_F(GivenUpTest, NobodyWaitsInTheNextGenerationForWhoIsStillInTheFormer) {
  int num_refused = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Begin({.num_tasks = 3, .seed = seed});
    Settle(1, {.step_id = 4});
    EndGroup(0, "enough");
    const CallPtr waiting = Request(0, kFirst, /*key=*/2);
    const CallPtr refused = RequestAndRun(1, kFirst, /*key=*/2);
    if (refused->waits()) continue;  // Task 1 knew of the end.
    ++num_refused;
    GiveUpAs(1, refused->status(), kFirst, /*key=*/2);
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_EQ(waiting->status(), refused->status());
  }
  EXPECT_GT(num_refused, 0);
}

// Task 2 told its leader, but the leader died before it told other tasks.
TEST_F(GivenUpTest, TheNextLeaderIsToldIfTheFirstDiesWithWhatItKnew) {
  Begin({.num_tasks = 4});
  for (int other : {1, 3}) cluster_->Partition(0, other);
  GiveUp(2, Request(2));
  cluster_->RunFor(absl::Milliseconds(20));
  cluster_->Kill(0);
  for (int other : {1, 3}) cluster_->Heal(0, other);
  LetFindLeaderLost(2);
  LetFindLeaderLost(3);
  const CallPtr late = RequestAndRun(3);
  EXPECT_EQ(late->status(), kReason);
}

// The group may lack the leader.
TEST_F(GivenUpTest, WhoIsNotInTheGroupCannotEndItsExecutions) {
  for (const std::vector<int>& members : {std::vector{1, 2}, {0, 1, 2}}) {
    Begin({.num_tasks = 4});
    size_ = static_cast<int>(members.size());
    for (int task : members) Request(task, {.step_id = 4});
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_THAT(SendAs(3, 0, 0),
                IsPermissionDenied("is not in group 7 and cannot end it"));
    EXPECT_THAT(SendAs(1, 0, 0), IsOk());
  }
}

// The message names an unknown generation.
TEST_F(GivenUpTest, WhoIsNotInTheGroupCannotEndItsExecutionsOfAnyGeneration) {
  Begin({.num_tasks = 4});
  size_ = 3;
  for (int task : {0, 1, 2}) Request(task, {.step_id = 4});
  cluster_->RunFor(absl::Seconds(1));
  const CallPtr waiting = Request(0, kFirst, /*key=*/2);
  ExecKey execution = KeyOf({kGroup, 2}, kFirst);
  execution.generation = 1000;
  const auto end = [&](int task) {
    Resolver(0).OnCancelled({task, cluster_->Device(task, 0).incarnation},
                            execution, kReason);
    cluster_->RunFor(absl::Seconds(1));
  };
  end(3);
  EXPECT_TRUE(waiting->waits());
  end(1);
  EXPECT_EQ(waiting->status(), kReason);
}

// Some of many watchers of the end run before the resolver's own. Meanwhile
// task 3 may have failed an execution in the next generation.
TEST_F(GivenUpTest, AMemberOfTheNextGenerationIsHeardWhileTheFormerEnds) {
  Begin({.num_tasks = 4});
  size_ = 2;  // Without the leader.
  const CallPtr former = Request(1, {.step_id = 4});
  Request(2, {.step_id = 4});
  cluster_->RunFor(absl::Seconds(1));
  ASSERT_THAT(former->status(), IsOk());
  const auto number = [](uint64_t execution) {
    return CallNumber{.step_id = kFirst.step_id, .execution = execution};
  };
  constexpr uint64_t kNumWatchers = 64;
  const CollGroupParams& group = *former->params().group;
  for (uint64_t i = 0; i < kNumWatchers; ++i) {
    group.cancellation->Watch([&, i](const absl::Status& /*reason*/) {
      ExecKey execution = KeyOf({kGroup, 2}, number(i));
      execution.generation = group.generation + 1;
      Resolver(1).OnCancelled({3, cluster_->Device(3, 0).incarnation},
                              execution, kReason);
    });
  }
  EndGroup(1, "enough");
  for (uint64_t i = 0; i < kNumWatchers; ++i) {
    EXPECT_EQ(Request(1, number(i), /*key=*/2)->status(), kReason);
  }
}

TEST_F(GivenUpTest, WhoIsTakenForTheLeaderSaysThatItIsNot) {
  Begin({.num_tasks = 3});
  EXPECT_THAT(SendAs(2, 1, 0),
              IsUnavailable(cluster_->Label(1), "does not lead"));
  EXPECT_THAT(SendAs(0, 1, 0), IsOk());
}

// Steps that have ended on all tasks: the leader frees their resolvers, and
// refuses late requests.
const absl::Status kEnded = StepHasEndedError(kFirst.step_id);

// In these tests task 0 leads.
class EndedStepTest : public GivenUpTest {
 protected:
  void EndStepOn(const std::vector<int>& tasks) {
    for (int task : tasks) Resolver(task).EndStep(kFirst.step_id);
  }

  // Sends task 0 a request as a member of task 1 would, bypassing task 1's
  // resolver.
  void RequestAsTask1(ControlAnswer* answer) {
    const DeviceAttributes device = cluster_->Device(1, 0);
    proto::ControlRequest request;
    *request.mutable_complete_params() =
        *EncodeMemberCall({.device = device,
                           .request = std::make_shared<const CollectiveRequest>(
                               AllReduceOf(kGroup, size_, /*instance_key=*/1)),
                           .number = kFirst});
    cluster_->Send({1, device.incarnation}, 0, request,
                   [answer](const ControlAnswer& reply) { *answer = reply; });
    cluster_->RunFor(absl::Seconds(1));
  }
  static absl::Status FailureOf(const ControlAnswer& answer) {
    if (!answer.ok()) return answer.status();
    return DecodeError(answer->complete_params().failure().reason());
  }

  // Expects that calls of all tasks in the next step are settled.
  void ExpectTheNextStepRuns() {
    std::vector<CallPtr> calls;
    for (int task = 0; task < options_.num_tasks; ++task) {
      calls.push_back(Request(task, {.step_id = kFirst.step_id + 1}));
    }
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(calls, IsOk());
  }
};

TEST_F(EndedStepTest, WhatIsAskedAfterwardsIsRefusedOnEachTask) {
  Begin({.num_tasks = 3});
  for (int i = 0; i < 2; ++i) EndStepOn({0, 1, 2});
  for (int task : {0, 1, 2}) {
    const CallPtr call = RequestAndRun(task);
    EXPECT_EQ(call->status(), kEnded);
  }
  ExpectTheNextStepRuns();
}

TEST_F(EndedStepTest, ALateQuestionIsRefusedByTheLeader) {
  Begin({.num_tasks = 3});
  EndStepOn({0});
  ControlAnswer answer = absl::UnknownError("none");
  RequestAsTask1(&answer);
  EXPECT_EQ(FailureOf(answer), kEnded);
  EXPECT_EQ(Resolver(0).leader().num_waiting(), 0u);
  const CallPtr of_unaware_task = RequestAndRun(2);
  EXPECT_EQ(of_unaware_task->status(), kEnded);
  ExpectTheNextStepRuns();
}

TEST_F(EndedStepTest, WhatWaitsAtTheLeaderEndsWithTheStep) {
  Begin({.num_tasks = 3});
  ControlAnswer answer = absl::UnknownError("none");
  RequestAsTask1(&answer);
  const CallPtr waiting = RequestAndRun(2);
  EXPECT_EQ(Resolver(0).leader().num_waiting(), 2u);
  EndStepOn({0});
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(FailureOf(answer), kEnded);
  EXPECT_EQ(waiting->status(), kEnded);
  EXPECT_EQ(Resolver(0).leader().num_waiting(), 0u);
  ExpectTheNextStepRuns();
}

TEST_F(EndedStepTest, WhatIsGivenUpAfterwardsIsNotToldOthers) {
  Begin({.num_tasks = 3});
  const CallPtr waiting = Request(0);
  const CallPtr given_up = RequestAndRun(1);
  EndStepOn({1});
  GiveUp(1, given_up);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_TRUE(waiting->waits());
  // A late message about another execution.
  EXPECT_THAT(SendAs(1, 0, 1), IsOk());
  EndStepOn({0, 2});
  EXPECT_THAT(SendAs(1, 0, 0), IsOk());
  const CallPtr late = RequestAndRun(2);
  EXPECT_EQ(late->status(), kEnded);
  ExpectTheNextStepRuns();
}

}  // namespace cluster_faults_test
}  // namespace tutti
