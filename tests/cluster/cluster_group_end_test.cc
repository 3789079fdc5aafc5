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
using testing::AllOf;
using testing::HasSubstr;

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
  const auto two = cluster_->Request(2, 0, AllReduceOf(kGroup, 2, 1));
  cluster_->RunFor(absl::Seconds(1));
  const auto late = cluster_->Request(0, 0, AllReduceOf(kGroup, 3, 1));
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& call : {one, two, late}) {
    EXPECT_THAT(call->status(),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("asks for size"),
                               HasSubstr("; the group has failed: "
                                         "ReformGroup() begins it anew"))));
  }
  cluster_->control(2).param_resolver()->EndGroup(
      kGroup, absl::CancelledError("start over"));
  cluster_->RunFor(absl::Seconds(1));
  const auto calls = RequestAll(Request());
  cluster_->RunFor(absl::Seconds(1));
  ExpectAllOk(calls);
}

TEST_F(ClusterGroupEndTest, ADeviceTooManyEndsTheGroupOnAllTasks) {
  Begin({.num_tasks = 4});
  std::vector<CallPtr> calls;
  const auto request = AllReduceOf(kGroup, 2, 1);
  for (int task : {1, 2}) calls.push_back(cluster_->Request(task, 0, request));
  cluster_->RunFor(absl::Seconds(1));
  ExpectAllOk(calls);
  const auto third = cluster_->Request(3, 0, request);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_THAT(third->status(), StatusIs(StatusCode::kInvalidArgument,
                                        HasSubstr("wants to join")));
  for (const CallPtr& call : calls) {
    EXPECT_THAT(
        call->params().group->cancellation->status(),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr("wants to join")));
  }
}

TEST_F(ClusterGroupEndTest, EndGroupReachesAllTasksAndTheNextGenerationForms) {
  for (int ending = 0; ending < 4; ++ending) {
    Begin({.num_tasks = 4, .seed = static_cast<uint64_t>(ending)});
    uint64_t last_generation = 0;
    for (int round = 0; round < 3; ++round) {
      const auto calls = RequestAll(Request());
      cluster_->RunFor(absl::Seconds(1));
      ExpectAllOk(calls);
      const auto waiting = cluster_->Request(3, 0, Request(2));
      cluster_->RunFor(absl::Milliseconds(10));
      cluster_->control(ending).param_resolver()->EndGroup(
          kGroup, absl::AbortedError("enough"));
      cluster_->RunFor(absl::Milliseconds(5));
      for (const CallPtr& call : calls) {
        EXPECT_THAT(call->params().group->cancellation->status(),
                    StatusIs(StatusCode::kAborted, HasSubstr("enough")));
      }
      EXPECT_THAT(waiting->status(),
                  StatusIs(StatusCode::kAborted, HasSubstr("enough")));
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
  const auto calls = RequestAll(Request());
  cluster_->RunFor(absl::Seconds(1));
  ExpectAllOk(calls);
  const auto end = [this](int task, absl::string_view why) {
    cluster_->control(task).param_resolver()->EndGroup(kGroup,
                                                       absl::AbortedError(why));
  };
  end(1, "first");
  cluster_->RunFor(absl::Milliseconds(10));
  end(2, "second");
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& call : calls) {
    EXPECT_THAT(call->params().group->cancellation->status(),
                StatusIs(StatusCode::kAborted, HasSubstr("first")));
  }
}

// Some watchers of a group run before this task has forgotten the group. The
// leader may learn of the end first from a task that calls again.
TEST_F(ClusterGroupEndTest, WhoAsksOnTheWordOfTheEndJoinsTheNextGeneration) {
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(absl::StrCat("round ", i));
    const int asking = i % 2;
    const int ending = i / 2 % 2;
    Begin({.num_tasks = 2, .seed = static_cast<uint64_t>(i + 1)});
    const auto calls = RequestAll(Request());
    cluster_->RunFor(absl::Seconds(1));
    ExpectAllOk(calls);
    const auto group = calls[asking]->params().group;
    std::vector<CallPtr> requested;
    for (int watcher = 0; watcher < 16; ++watcher) {
      group->cancellation->Watch([&](const absl::Status&) {
        requested.push_back(cluster_->Request(asking, 0, Request()));
      });
    }
    cluster_->control(ending).param_resolver()->EndGroup(
        kGroup, absl::AbortedError("enough"));
    if (asking == ending) cluster_->RunFor(absl::Seconds(1));
    const CallPtr other = cluster_->Request(1 - asking, 0, Request());
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_EQ(requested.size(), 16u);
    requested.push_back(other);
    ExpectAllOk(requested);
    for (const CallPtr& call : requested) {
      EXPECT_GT(call->params().group->generation, group->generation);
    }
  }
}

TEST_F(ClusterGroupEndTest, ALateEndOfAnOlderGenerationIsIgnored) {
  Begin({.num_tasks = 2});
  const auto old = RequestAll(Request());
  cluster_->RunFor(absl::Seconds(1));
  ExpectAllOk(old);
  cluster_->control(0).param_resolver()->EndGroup(kGroup,
                                                  absl::AbortedError("old"));
  cluster_->RunFor(absl::Seconds(1));
  const auto calls = RequestAll(Request());
  cluster_->RunFor(absl::Seconds(1));
  ExpectAllOk(calls);
  const proto::ControlRequest request =
      EndOf(old[0]->params().group->generation);
  for (int task : {0, 1}) {
    cluster_->Send({1 - task, cluster_->Device(1 - task, 0).incarnation}, task,
                   request, [](ControlAnswer) {});
  }
  cluster_->RunFor(absl::Seconds(1));
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
    cluster_->control(ending).param_resolver()->EndGroup(
        kGroup, absl::AbortedError("never mind"));
    cluster_->RunFor(absl::Seconds(1));
    for (const CallPtr& call : calls) {
      EXPECT_THAT(call->status(),
                  StatusIs(StatusCode::kAborted, HasSubstr("never mind")));
    }
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
    for (const CallPtr& call : calls) {
      EXPECT_EQ(call->status(), absl::AbortedError("first"));
    }
    EXPECT_EQ(later->status(), absl::AbortedError("second"));
  }
}

TEST_F(ClusterGroupEndTest, ATaskThatDoesNotWaitCannotEndAGroupBeingFormed) {
  Begin({.num_tasks = 3});
  const auto call = cluster_->Request(1, 0, Request());
  cluster_->RunFor(absl::Seconds(1));
  for (int task : {0, 2}) {
    cluster_->control(task).param_resolver()->EndGroup(
        kGroup, absl::AbortedError("not mine"));
  }
  const proto::ControlRequest request = EndOf(/*generation=*/0);
  cluster_->Send({2, cluster_->Device(2, 0).incarnation}, 0, request,
                 [](ControlAnswer) {});
  cluster_->RunFor(absl::Seconds(1));
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
    std::vector<absl::Status> reasons;
    cluster_->Send({2, cluster_->Device(2, 0).incarnation}, 0, request,
                   [&](const ControlAnswer& answer) {
                     ASSERT_THAT(answer, IsOk());
                     reasons.push_back(DecodeError(
                         answer->complete_params().failure().reason()));
                   });
    cluster_->RunFor(absl::Seconds(1));
    if (shift > 41) {
      ASSERT_EQ(reasons.size(), 1u);
      EXPECT_THAT(reasons[0], StatusIs(StatusCode::kInvalidArgument,
                                       HasSubstr("ended_generation")));
    }
    for (int round = 0; round < 3; ++round) {
      for (InstanceKey key : {1, 2}) {
        const auto calls = RequestAll(Request(key));
        cluster_->RunFor(absl::Seconds(1));
        ExpectAllOk(calls);
      }
      cluster_->control(round).param_resolver()->EndGroup(
          kGroup, absl::AbortedError("enough"));
      cluster_->RunFor(absl::Seconds(1));
    }
  }
}

TEST_F(ClusterGroupEndTest, TheEndOfAGenerationThatCannotBeIsNotBelieved) {
  for (int shift : {39, 40, 41, 61, 62}) {
    SCOPED_TRACE(absl::StrCat("2^", shift));
    Begin({.num_tasks = 3});
    for (int liar : {1, 2}) {
      const auto calls = RequestAll(Request());
      cluster_->RunFor(absl::Seconds(1));
      ExpectAllOk(calls);
      const proto::ControlRequest request = EndOf(uint64_t{1} << shift);
      absl::Status status;
      cluster_->Send(
          {liar, cluster_->Device(liar, 0).incarnation}, liar == 1 ? 0 : 1,
          request,
          [&](const ControlAnswer& answer) { status = answer.status(); });
      cluster_->RunFor(absl::Seconds(1));
      if (shift > 40) {
        EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument,
                                     HasSubstr("says has ended")));
      }
      for (int task : {0, 1, 2}) {
        cluster_->control(task).param_resolver()->EndGroup(
            kGroup, absl::AbortedError("enough"));
      }
      cluster_->RunFor(absl::Seconds(1));
    }
  }
}

}  // namespace cluster_group_end_test
}  // namespace tutti
