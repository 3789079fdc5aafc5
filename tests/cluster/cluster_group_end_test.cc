// Ends of groups on all tasks, and the generations that follow.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/control/wire_codec.h"
#include "resolvers/messages/control_codec.h"
#include "tests/cluster/cluster_resolve_testing.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace cluster_group_end_test {

using absl::StatusCode;

class ClusterGroupEndTest : public ClusterResolveTest {
 protected:
  // Request by which a task ends its group.
  static proto::ControlRequest EndOf(uint64_t generation) {
    proto::ControlRequest request;
    request.mutable_end_group()->set_group_key(kGroup);
    request.mutable_end_group()->set_generation(generation);
    request.mutable_end_group()->mutable_reason()->set_code(
        static_cast<int>(StatusCode::kAborted));
    return request;
  }
};

TEST_F(ClusterGroupEndTest, AGroupThatCannotBeFormedFailsUntilItIsEnded) {
  Begin({.num_tasks = 3});
  const auto one = cluster_->Request(1, 0, AllReduceOf(kGroup, 3, 1));
  const CallPtr two = AskAndRun(2, AllReduceOf(kGroup, 2, 1));
  const CallPtr late = AskAndRun(0, AllReduceOf(kGroup, 3, 1));
  ExpectEnds({one, two, late},
             IsInvalidArgument("asks for size",
                               "; the group has failed: "
                               "ReformGroup() begins it anew"));
  Resolver(2).EndGroup(kGroup, absl::CancelledError("start over"));
  cluster_->RunFor(absl::Seconds(1));
  Settle(Request());
}

TEST_F(ClusterGroupEndTest, ADeviceTooManyEndsTheGroupOnAllTasks) {
  Begin({.num_tasks = 4});
  std::vector<CallPtr> calls;
  const auto request = AllReduceOf(kGroup, 2, 1);
  for (int task : {1, 2}) calls.push_back(cluster_->Request(task, 0, request));
  cluster_->RunFor(absl::Seconds(1));
  ExpectEnds(calls, IsOk());
  const CallPtr third = AskAndRun(3, request);
  EXPECT_THAT(third->status(), IsInvalidArgument("wants to join"));
  ExpectGroupEnds(calls, IsInvalidArgument("wants to join"));
}

TEST_F(ClusterGroupEndTest, EndGroupReachesAllTasksAndTheNextGenerationForms) {
  for (int ending = 0; ending < 4; ++ending) {
    Begin({.num_tasks = 4, .seed = static_cast<uint64_t>(ending)});
    uint64_t last_generation = 0;
    for (int round = 0; round < 3; ++round) {
      const auto calls = Settle(Request());
      const auto waiting = cluster_->Request(3, 0, Request(2));
      cluster_->RunFor(absl::Milliseconds(10));
      EndGroup(ending, "enough");
      cluster_->RunFor(absl::Milliseconds(5));
      ExpectGroupEnds(calls, IsAborted("enough"));
      EXPECT_THAT(waiting->status(), IsAborted("enough"));
      EXPECT_GT(calls[0]->params().group->generation, last_generation);
      last_generation = calls[0]->params().group->generation;
      cluster_->RunFor(absl::Seconds(1));
      ExpectNothingWaits();
      EXPECT_EQ(led(0).num_groups(), 0u);
    }
  }
}

TEST_F(ClusterGroupEndTest, TheFirstReasonOfAnEndStays) {
  Begin({.num_tasks = 3});
  const auto calls = Settle(Request());
  const auto end = [this](int task, absl::string_view why) {
    Resolver(task).EndGroup(kGroup, absl::AbortedError(why));
  };
  end(1, "first");
  cluster_->RunFor(absl::Milliseconds(10));
  end(2, "second");
  cluster_->RunFor(absl::Seconds(1));
  ExpectGroupEnds(calls, IsAborted("first"));
}

// Some watchers of a group run before this task has forgotten the group. The
// leader may learn of the end first from a task that calls again.
TEST_F(ClusterGroupEndTest, WhoAsksOnTheWordOfTheEndJoinsTheNextGeneration) {
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(absl::StrCat("round ", i));
    const int asking = i % 2;
    const int ending = i / 2 % 2;
    Begin({.num_tasks = 2, .seed = static_cast<uint64_t>(i + 1)});
    const auto calls = Settle(Request());
    const auto group = calls[asking]->params().group;
    std::vector<CallPtr> requested;
    for (int watcher = 0; watcher < 16; ++watcher) {
      group->cancellation->Watch([&](const absl::Status&) {
        requested.push_back(cluster_->Request(asking, 0, Request()));
      });
    }
    EndGroup(ending, "enough");
    if (asking == ending) cluster_->RunFor(absl::Seconds(1));
    const CallPtr other = AskAndRun(1 - asking, Request());
    EXPECT_EQ(requested.size(), 16u);
    requested.push_back(other);
    ExpectEnds(requested, IsOk());
    for (const CallPtr& call : requested) {
      EXPECT_GT(call->params().group->generation, group->generation);
    }
  }
}

TEST_F(ClusterGroupEndTest, ALateEndOfAnOlderGenerationIsIgnored) {
  Begin({.num_tasks = 2});
  const auto old = Settle(Request());
  EndGroup(0, "old");
  cluster_->RunFor(absl::Seconds(1));
  const auto calls = Settle(Request());
  const proto::ControlRequest request =
      EndOf(old[0]->params().group->generation);
  for (int task : {0, 1}) {
    (void)Send(1 - task, task, request);
  }
  for (const CallPtr& call : calls) {
    EXPECT_FALSE(call->params().group->cancellation->cancelled());
  }
}

TEST_F(ClusterGroupEndTest, EndGroupEndsAGroupThatIsBeingFormed) {
  for (int ending : {0, 1, 2}) {
    Begin({.num_tasks = 4});
    std::vector<CallPtr> calls;
    for (int task : {0, 1, 2}) {
      calls.push_back(cluster_->Request(task, 0, Request()));
    }
    cluster_->RunFor(absl::Seconds(1));
    EndGroup(ending, "never mind");
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(calls, IsAborted("never mind"));
    EXPECT_EQ(led(0).num_groups(), 0u);
  }
}

TEST_F(ClusterGroupEndTest, EachCallEndsWithTheReasonOfItsOwnEnd) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Begin({.num_tasks = 2, .seed = seed, .max_delay = absl::Milliseconds(300)});
    ParamResolverDistributed& resolver = *cluster_->control(1).param_resolver();
    std::vector<CallPtr> calls;
    for (InstanceKey key = 0; key < 8; ++key) {
      calls.push_back(cluster_->Request(1, 0, Request(key)));
    }
    resolver.EndGroup(kGroup, absl::AbortedError("first"));
    const CallPtr later = cluster_->Request(1, 0, Request(8));
    resolver.EndGroup(kGroup, absl::AbortedError("second"));
    cluster_->RunFor(absl::Seconds(20));
    ExpectEnds(calls, absl::AbortedError("first"));
    EXPECT_EQ(later->status(), absl::AbortedError("second"));
  }
}

TEST_F(ClusterGroupEndTest, ATaskThatDoesNotWaitCannotEndAGroupBeingFormed) {
  Begin({.num_tasks = 3});
  const CallPtr call = AskAndRun(1, Request());
  for (int task : {0, 2}) {
    EndGroup(task, "not mine");
  }
  (void)Send(2, 0, EndOf(/*generation=*/0));
  EXPECT_TRUE(call->waits());
}

// A bad generation from one member affects no other task, nor the member's
// later calls.
TEST_F(ClusterGroupEndTest, AGenerationThatCannotBeIsNotCountedOnFrom) {
  for (int shift : {40, 41, 42, 61, 62}) {
    SCOPED_TRACE(absl::StrCat("2^", shift));
    const uint64_t generation = uint64_t{1} << shift;
    Begin({.num_tasks = 3});
    proto::ControlRequest request;
    *request.mutable_complete_params() =
        *EncodeMemberCall({.device = cluster_->Device(2, 0),
                           .request = std::make_shared<const CollectiveRequest>(
                               AllReduceOf(8, 2, 1)),
                           .ended_generation = generation});
    const ControlAnswer answer = Send(2, 0, request);
    if (shift > 41) {
      ASSERT_THAT(answer, IsOk());
      EXPECT_THAT(DecodeError(answer->complete_params().failure().reason()),
                  IsInvalidArgument("ended_generation"));
    }
    for (int round = 0; round < 3; ++round) {
      for (InstanceKey key : {1, 2}) {
        Settle(Request(key));
      }
      EndGroup(round, "enough");
      cluster_->RunFor(absl::Seconds(1));
    }
  }
}

TEST_F(ClusterGroupEndTest, TheEndOfAGenerationThatCannotBeIsNotBelieved) {
  for (int shift : {39, 40, 41, 61, 62}) {
    SCOPED_TRACE(absl::StrCat("2^", shift));
    Begin({.num_tasks = 3});
    for (int liar : {1, 2}) {
      Settle(Request());
      const ControlAnswer answer =
          Send(liar, liar == 1 ? 0 : 1, EndOf(uint64_t{1} << shift));
      if (shift > 40) {
        EXPECT_THAT(answer, IsInvalidArgument("says has ended"));
      }
      for (int task : {0, 1, 2}) {
        EndGroup(task, "enough");
      }
      cluster_->RunFor(absl::Seconds(1));
    }
  }
}

}  // namespace cluster_group_end_test
}  // namespace tutti
