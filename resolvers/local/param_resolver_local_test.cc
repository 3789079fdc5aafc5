#include "resolvers/local/param_resolver_local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective/group_resources.h"
#include "resolvers/local/led_groups.h"
#include "resolvers/local/waiting_calls.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"

namespace tutti {
namespace param_resolver_local_test {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

WaitingCallPtr CallFor(GroupKey key) {
  auto request = std::make_shared<CollectiveRequest>();
  request->group_key = key;
  request->group_size = 2;
  auto call = std::make_shared<WaitingCall>();
  call->device_name = "/job:worker/replica:0/task:0/device:CPU:0";
  call->request = std::move(request);
  return call;
}

WaitingCallPtr RemoteCallFor(GroupKey key) {
  auto call = CallFor(key);
  call->is_remote = true;
  return call;
}

class LedGroupsTest : public testing::Test {
 protected:
  LedGroups groups_{{.max_entries = 100, .max_groups = 2}};
  LeaderOutbox outbox_;
};

TEST_F(LedGroupsTest, AGroupIsFoundUntilItIsDropped) {
  const auto added = groups_.FindOrAdd(*CallFor(7), &outbox_);
  ASSERT_THAT(added, IsOk());
  EXPECT_EQ(groups_.Find(7), added->get());
  EXPECT_THAT(groups_.Keys(), ElementsAre(7));
  groups_.Drop(7, absl::CancelledError("over"), &outbox_);
  EXPECT_EQ(groups_.Find(7), nullptr);
  EXPECT_EQ(groups_.num_groups(), 0u);
  EXPECT_THAT((*added)->status, StatusIs(StatusCode::kCancelled, "over"));
}

TEST_F(LedGroupsTest, ADroppedGroupAnswersItsCallsThroughTheOutbox) {
  const auto call = CallFor(7);
  const auto group = groups_.FindOrAdd(*call, &outbox_);
  ASSERT_THAT(group, IsOk());
  (*group)->waiting.Add(call);
  groups_.Drop(7, absl::CancelledError("over"), &outbox_);
  ASSERT_EQ(outbox_.answers.size(), 1u);
  const auto& [answered, answer] = outbox_.answers[0];
  EXPECT_EQ(answered, call);
  EXPECT_THAT(answer.params, StatusIs(StatusCode::kCancelled, "over"));
  EXPECT_EQ(answer.failed_generation, (*group)->generation);
}

TEST_F(LedGroupsTest, ARenewedGroupIsLaterThanTheEndedGeneration) {
  const auto group = groups_.FindOrAdd(*CallFor(7), &outbox_);
  ASSERT_THAT(group, IsOk());
  groups_.Renew(**group, /*ended=*/40);
  EXPECT_EQ((*group)->generation, 41u);
  EXPECT_EQ(groups_.last_generation(), 41u);
}

TEST_F(LedGroupsTest, OnlyTheFirstAndTheLastNewGroupChangeTheOutbox) {
  const auto changes = [&] {
    return std::exchange(outbox_.new_groups_changed, false);
  };
  ASSERT_THAT(groups_.FindOrAdd(*CallFor(1), &outbox_), IsOk());
  EXPECT_TRUE(changes());
  ASSERT_THAT(groups_.FindOrAdd(*CallFor(2), &outbox_), IsOk());
  EXPECT_FALSE(changes());
  groups_.Drop(1, absl::CancelledError("over"), &outbox_);
  EXPECT_FALSE(changes());
  groups_.Drop(2, absl::CancelledError("over"), &outbox_);
  EXPECT_TRUE(changes());
}

TEST_F(LedGroupsTest, RemoteMembersAloneAreLimited) {
  ASSERT_THAT(groups_.FindOrAdd(*RemoteCallFor(1), &outbox_), IsOk());
  ASSERT_THAT(groups_.FindOrAdd(*RemoteCallFor(2), &outbox_), IsOk());
  EXPECT_THAT(groups_.FindOrAdd(*RemoteCallFor(3), &outbox_),
              IsResourceExhausted("more than the 2"));
  EXPECT_THAT(groups_.FindOrAdd(*CallFor(3), &outbox_), IsOk());
}

TEST_F(LedGroupsTest, ALargerGroupThanTheDevicesLeftGetsTheReason) {
  groups_.SetDevicesLeft(1, absl::UnavailableError("lost"), &outbox_);
  EXPECT_THAT(groups_.FindOrAdd(*CallFor(7), &outbox_),
              StatusIs(StatusCode::kUnavailable, "lost"));
}

TEST_F(LedGroupsTest, ACallThatDoesNotWaitCannotLeave) {
  const auto call = CallFor(7);
  EXPECT_FALSE(groups_.Leave(call, absl::CancelledError("over"), &outbox_));
  ASSERT_THAT(groups_.FindOrAdd(*call, &outbox_), IsOk());
  EXPECT_FALSE(groups_.Leave(call, absl::CancelledError("over"), &outbox_));
}

TEST_F(LedGroupsTest, TheLastCallThatLeavesDropsItsGroup) {
  const auto call = CallFor(7);
  const auto group = groups_.FindOrAdd(*call, &outbox_);
  ASSERT_THAT(group, IsOk());
  (*group)->waiting.Add(call);
  EXPECT_TRUE(groups_.Leave(call, absl::CancelledError("over"), &outbox_));
  EXPECT_EQ(groups_.Find(7), nullptr);
  EXPECT_EQ(outbox_.answers.size(), 1u);
}

WaitingCallPtr CallOf(std::string device_name) {
  auto call = std::make_shared<WaitingCall>();
  call->device_name = std::move(device_name);
  return call;
}

TEST(WaitingCallsTest, AreTakenInTheOrderInWhichTheyCame) {
  WaitingCalls calls;
  const auto first = CallOf("a");
  const auto second = CallOf("b");
  const auto third = CallOf("c");
  for (const auto& call : {first, second, third}) calls.Add(call);
  EXPECT_TRUE(calls.Remove(*second));
  calls.Add(second);
  EXPECT_THAT(calls.TakeAll(), ElementsAre(first, third, second));
  EXPECT_THAT(calls.TakeAll(), IsEmpty());
  EXPECT_FALSE(calls.HasCallOf("a"));
}

TEST(WaitingCallsTest, ADeviceHasACallUntilItsLastOneLeaves) {
  WaitingCalls calls;
  const auto first = CallOf("a");
  const auto again = CallOf("a");
  calls.Add(first);
  calls.Add(again);
  EXPECT_TRUE(calls.Remove(*first));
  EXPECT_TRUE(calls.HasCallOf("a"));
  EXPECT_TRUE(calls.Remove(*again));
  EXPECT_FALSE(calls.HasCallOf("a"));
}

TEST(WaitingCallsTest, ACallLeavesOnceAndFromItsOwnPlaceOnly) {
  WaitingCalls calls;
  WaitingCalls others;
  const auto call = CallOf("a");
  const auto other = CallOf("b");
  calls.Add(call);
  others.Add(other);
  EXPECT_FALSE(calls.Remove(*other));
  EXPECT_TRUE(calls.Remove(*call));
  EXPECT_FALSE(calls.Remove(*call));
}

using Answer = absl::StatusOr<std::shared_ptr<const CollectiveParams>>;

// Behaviour of the implementation, besides counting.
struct Hooks {
  std::function<absl::Status()> form_group = absl::OkStatus;
  std::function<absl::Status()> settle_instance = absl::OkStatus;
  std::function<void()> price = [] {};
  int num_formed = 0;
  int num_settled = 0;
};
Hooks* hooks = nullptr;  // Set by the running test.

class Hooked : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveGroupRuntimeDetails(
      CollGroupParams*) override {
    ++hooks->num_formed;
    return hooks->form_group();
  }
  absl::Status InitializeCollectiveParams(const CollGroupParams&,
                                          CollInstanceParams*) override {
    ++hooks->num_settled;
    return hooks->settle_instance();
  }
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback) override {}
};

class ParamResolverLocalTest : public testing::Test {
 protected:
  // Result of one call.
  struct Call {
    std::shared_ptr<Cancellation> token = std::make_shared<Cancellation>();
    std::vector<Answer> answers;

    bool waits() const { return answers.empty(); }
    friend absl::Status EndOf(const Call& call) {
      return call.answers.size() == 1 ? call.answers[0].status()
                                      : absl::UnknownError("not one answer");
    }
  };

  ParamResolverLocalTest() {
    hooks = &hooks_;
    ResetResolver(/*max_entries=*/1000);
    EXPECT_THAT(registry_.Register(
                    "Hooked", Implemented<Hooked>(
                                  {.collectives = {CollectiveType::kAllReduce,
                                                   CollectiveType::kAllToAll},
                                   .supports_uneven = true,
                                   .cost_seconds =
                                       [](const CostQuery&) {
                                         hooks->price();
                                         return 1.0;
                                       }})),
                IsOk());
  }

  void ResetResolver(size_t max_entries) {
    resolver_ = ParamResolverLocal::Create(
        {.policy = {.registry = &registry_}, .max_entries = max_entries});
  }

  static DeviceAttributes Cpu(int index) {
    return {.name = {"worker", 0, 0, "CPU", index}, .incarnation = 1};
  }

  CollectiveRequest Request(InstanceKey key) const {
    CollectiveRequest request;
    request.group_key = 9;
    request.group_size = size_;
    request.instance_key = key;
    request.op = AllReduce{};
    request.shape = TensorShape::Vector(4);
    return request;
  }

  std::shared_ptr<Call> Request(int device, const CollectiveRequest& request) {
    auto call = std::make_shared<Call>();
    resolver_->CompleteInstanceAsync(
        Cpu(device), std::make_shared<const CollectiveRequest>(request),
        CallNumber{}, call->token,
        [call](Answer answer) { call->answers.push_back(std::move(answer)); });
    return call;
  }
  std::shared_ptr<Call> Request(int device, InstanceKey key) {
    return Request(device, Request(key));
  }

  void AllRequest(InstanceKey key) {
    for (int device = 0; device < size_; ++device) Request(device, key);
  }

  int size_ = 2;
  Hooks hooks_;
  CollectiveRegistry registry_;
  std::shared_ptr<ParamResolverLocal> resolver_;
};

// Calls from before the loss of a task may come while the others already form a
// smaller group.
TEST_F(ParamResolverLocalTest, ALateCallForMoreThanAreLeftSpoilsNoGroup) {
  const absl::Status lost = absl::UnavailableError("task 7 was lost");
  resolver_->SetDevicesLeft(2, lost);
  const auto first = Request(0, 1);
  EXPECT_TRUE(first->waits());
  CollectiveRequest late = Request(1);
  late.group_size = 3;
  const auto refused = Request(1, late);
  ASSERT_EQ(refused->answers.size(), 1);
  EXPECT_EQ(refused->answers[0].status(), lost);
  EXPECT_TRUE(first->waits());
  const auto second = Request(1, 1);
  ExpectEnds({first, second}, IsOk());
}

TEST_F(ParamResolverLocalTest, WhoCannotServeTheDevicesAddsNothingToTheGroup) {
  ASSERT_THAT(registry_.Register(
                  "WithLib", Implemented<Hooked>(
                                 {.collectives = {CollectiveType::kAllReduce},
                                  .device_needs = {.library = "Lib"}})),
              IsOk());
  AllRequest(1);
  EXPECT_EQ(hooks_.num_formed, 1);  // "Hooked" did.
}

TEST_F(ParamResolverLocalTest, ImplementationsAreCalledWithNoLockHeld) {
  const auto use_resolver = [this] {
    EXPECT_EQ(resolver_->num_groups(), 1u);
    return absl::OkStatus();
  };
  hooks_.form_group = use_resolver;
  hooks_.settle_instance = use_resolver;
  hooks_.price = [&] { EXPECT_THAT(use_resolver(), IsOk()); };
  AllRequest(1);
  EXPECT_EQ(hooks_.num_formed, 1);
  EXPECT_EQ(hooks_.num_settled, 1);
}

TEST_F(ParamResolverLocalTest, CallsThatComeWhileItIsSettledGetTheSameAnswer) {
  std::vector<std::shared_ptr<Call>> calls;
  const auto request_again = [&] {
    calls.push_back(Request(0, 1));
    calls.push_back(Request(1, 1));
    EXPECT_TRUE(calls.back()->waits());
    return absl::OkStatus();
  };
  hooks_.form_group = request_again;
  hooks_.settle_instance = request_again;
  calls.push_back(Request(0, 1));
  calls.push_back(Request(1, 1));
  ASSERT_EQ(calls.size(), 6u);
  for (const auto& call : calls) {
    ASSERT_EQ(call->answers.size(), 1u);
    ASSERT_THAT(call->answers[0], IsOk());
    EXPECT_EQ((*call->answers[0])->instance, (*calls[0]->answers[0])->instance);
  }
  EXPECT_EQ(hooks_.num_formed, 1);
  EXPECT_EQ(hooks_.num_settled, 1);
}

TEST_F(ParamResolverLocalTest, CallThatLeavesWhileItIsSettledHoldsUpNobody) {
  for (auto* hook : {&hooks_.form_group, &hooks_.settle_instance}) {
    hooks_.form_group = absl::OkStatus;
    resolver_->EndGroup(9, absl::CancelledError("again"));
    std::shared_ptr<Call> first;
    *hook = [&] {
      first->token->Cancel(absl::CancelledError("no more"));
      EXPECT_FALSE(first->waits());
      return absl::OkStatus();
    };
    first = Request(0, 1);
    const auto second = Request(1, 1);
    ExpectEnds({first}, IsCancelled("no more"));
    const auto again = Request(0, 1);
    ExpectEnds({second, again}, IsOk());
  }
}

TEST_F(ParamResolverLocalTest, GroupThatEndsWhileItIsSettledEndsItsCallsOnce) {
  for (auto* hook : {&hooks_.form_group, &hooks_.settle_instance}) {
    hooks_.form_group = absl::OkStatus;
    for (const bool fails : {false, true}) {
      *hook = [&, this] {
        resolver_->EndGroup(9, absl::AbortedError("lost"));
        return fails ? absl::InternalError("too late") : absl::OkStatus();
      };
      ExpectEnds({Request(0, 1), Request(1, 1)}, IsAborted("lost"));
      EXPECT_EQ(resolver_->num_groups(), 0u);
      EXPECT_EQ(resolver_->num_entries(), 0u);
    }
  }
}

TEST_F(ParamResolverLocalTest, ADeviceTooManyWhileTheGroupFormsEndsIt) {
  std::shared_ptr<Call> third;
  hooks_.form_group = [&] {
    third = Request(2, 1);
    return absl::OkStatus();
  };
  ExpectEnds({Request(0, 1), Request(1, 1), third},
             IsInvalidArgument("all of its 2 members"));
}

TEST_F(ParamResolverLocalTest, ErrorOfAnImplementationReachesAllWhoWait) {
  hooks_.settle_instance = [] { return absl::InternalError("no ring"); };
  ExpectEnds({Request(0, 1), Request(1, 1)}, IsInternal("no ring"));
  EXPECT_EQ(resolver_->num_entries(), 0u);
  hooks_.form_group = [] { return absl::InternalError("no id"); };
  resolver_->EndGroup(9, absl::CancelledError("again"));
  ExpectEnds({Request(0, 1), Request(1, 1)}, IsInternal("no id"));
}

std::function<void()> at_end_of_resource;
struct Resource {
  ~Resource() { at_end_of_resource(); }
};

TEST_F(ParamResolverLocalTest, GroupResourcesEndWithNoLockHeld) {
  int num_ended = 0;
  at_end_of_resource = [&] {
    EXPECT_EQ(resolver_->num_groups(), 0u);
    ++num_ended;
  };
  AllRequest(1);
  (*Request(0, 1)->answers[0])->group->resources->GetOrCreate<Resource>();
  resolver_->EndGroup(9, absl::CancelledError("over"));
  EXPECT_EQ(num_ended, 1);
}

TEST_F(ParamResolverLocalTest, GroupEndedWithoutAReasonIsCancelled) {
  const auto call = Request(0, 1);
  resolver_->EndGroup(9, absl::OkStatus());
  ExpectEnds({call}, IsCancelled("the group was ended"));
  EXPECT_EQ(resolver_->num_groups(), 0u);
}

TEST_F(ParamResolverLocalTest, KeepsInstancesUntilHalfOfTheEntriesWereUsed) {
  // Ten instances of two members are half of the entries.
  for (int num_instances = 10; num_instances < 80; ++num_instances) {
    ResetResolver(/*max_entries=*/40);
    for (InstanceKey key = 0; key < num_instances; ++key) {
      AllRequest(key);
      EXPECT_LE(resolver_->num_entries(), 40u);
    }
    const int num_settled = hooks_.num_settled;
    for (InstanceKey key = num_instances - 10; key < num_instances; ++key) {
      EXPECT_FALSE(Request(0, key)->waits()) << key << " of " << num_instances;
    }
    EXPECT_EQ(hooks_.num_settled, num_settled);
  }
  EXPECT_TRUE(Request(0, 0)->waits());
}

TEST_F(ParamResolverLocalTest, CountsMembersAndRowsOfInstances) {
  size_ = 8;
  ResetResolver(/*max_entries=*/1000);
  CollectiveRequest request = Request(0);
  request.op = AllToAll{.send_rows = std::vector<int64_t>(8, 1)};
  request.shape = TensorShape::Vector(8);
  for (InstanceKey key = 0; key < 200; ++key) {
    request.instance_key = key;
    for (int device = 0; device < size_; ++device) Request(device, request);
    EXPECT_EQ(resolver_->num_entries(), 72 * resolver_->num_instances());
    EXPECT_LE(resolver_->num_entries(), 1072u);
  }
}

TEST_F(ParamResolverLocalTest, KeepsAnInstanceThatAMemberHasNotAskedForAgain) {
  ResetResolver(/*max_entries=*/40);
  AllRequest(-1);
  Request(0, -1);
  for (InstanceKey key = 0; key < 1000; ++key) AllRequest(key);
  EXPECT_FALSE(Request(1, -1)->waits());
}

// Resolvers of a cluster remember the answers to their members: the number of
// earlier requests does not matter.
TEST_F(ParamResolverLocalTest, CallsOfAMemberThatRemembersCountAsOne) {
  ResetResolver(/*max_entries=*/40);
  for (int device : {0, 0, 1}) {
    resolver_->Join(
        {.device = Cpu(device),
         .request = std::make_shared<const CollectiveRequest>(Request(-1)),
         .requests_once = true},
        [](const LeaderAnswer& answer) { EXPECT_THAT(answer.params, IsOk()); });
  }
  for (InstanceKey key = 0; key < 1000; ++key) AllRequest(key);
  EXPECT_TRUE(Request(1, -1)->waits());
}

TEST_F(ParamResolverLocalTest, DescribesWhomAMemberWaitsForOrNobody) {
  size_ = 30;
  const auto waits_for = [this](InstanceKey key) {
    return resolver_->DescribeWaiting(Request(key));
  };
  EXPECT_THAT(waits_for(1), IsEmpty());
  for (int device = 0; device + 1 < size_; ++device) Request(device, 1);
  EXPECT_THAT(waits_for(1),
              AllOf(HasSubstr("group phase: 29 of 30 members had joined"),
                    HasSubstr("CPU:7 and 21 more"), Not(HasSubstr("CPU:8"))));
  Request(size_ - 1, 1);
  EXPECT_THAT(waits_for(1), IsEmpty());
  EXPECT_THAT(waits_for(2), IsEmpty());
  Request(0, 2);
  EXPECT_THAT(waits_for(2),
              AllOf(HasSubstr("instance phase: rank 1 ("),
                    HasSubstr("CPU:8) and 21 more had not arrived")));
}

TEST_F(ParamResolverLocalTest, ADifferenceIsNamedAfterAMemberThatIsStillThere) {
  Request(0, 1)->token->Cancel(absl::CancelledError("no more"));
  size_ = 4;
  const auto first = Request(0, 2);
  const auto second = Request(1, 2);
  first->token->Cancel(absl::CancelledError("no more"));
  size_ = 3;
  Request(2, 2);
  ASSERT_EQ(second->answers.size(), 1u);
  EXPECT_THAT(second->answers[0],
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("CPU:1 for size 4"),
                             HasSubstr("CPU:2 asks for size 3"),
                             Not(HasSubstr("CPU:0")))));
}

// --- Groups without an instance ----------------------------------------------

class CompleteGroupTest : public ParamResolverLocalTest {
 protected:
  using Group = absl::StatusOr<std::shared_ptr<const CollGroupParams>>;
  using Answers = std::shared_ptr<std::vector<Group>>;

  Answers Complete(int device, const CollectiveRequest& request,
                   std::shared_ptr<Cancellation> token = nullptr) {
    auto answers = std::make_shared<std::vector<Group>>();
    resolver_->CompleteGroupAsync(
        Cpu(device), request, std::move(token),
        [answers](Group group) { answers->push_back(std::move(group)); });
    return answers;
  }
  Answers Complete(int device) { return Complete(device, Request(1)); }
};

TEST_F(CompleteGroupTest, FormsTheGroupOnceAndThenLooksItUp) {
  size_ = 3;
  const Answers first = Complete(0), second = Complete(1);
  EXPECT_THAT(*first, IsEmpty());
  EXPECT_THAT(resolver_->DescribeWaiting(Request(1)),
              HasSubstr("group phase: 2 of 3 members had joined group 9"));
  EXPECT_TRUE(resolver_->has_new_groups());
  const Answers third = Complete(2), again = Complete(0);
  for (const Answers& answers : {first, second, third, again}) {
    ASSERT_EQ(answers->size(), 1u);
    ASSERT_THAT(answers->front(), IsOk());
    EXPECT_EQ(*answers->front(), *first->front());
  }
  const CollGroupParams& group = **first->front();
  EXPECT_EQ(group.key, 9);
  EXPECT_EQ(group.size(), 3);
  EXPECT_EQ(group.members[2].device, Cpu(2));
  EXPECT_EQ(hooks_.num_formed, 1);
  EXPECT_EQ(resolver_->num_instances(), 0u);
  EXPECT_FALSE(resolver_->has_new_groups());
}

TEST_F(CompleteGroupTest, InstancesOfTheGroupAreSettledInIt) {
  const Answers group = Complete(0);
  const auto call = Request(1, 5);  // Forms the group, and waits for device 0.
  ASSERT_EQ(group->size(), 1u);
  EXPECT_TRUE(call->waits());
  EXPECT_TRUE(resolver_->has_new_groups());
  EXPECT_THAT(resolver_->DescribeWaiting(Request(5)),
              HasSubstr("instance phase: rank 0"));
  const auto other = Request(0, 5);
  ExpectEnds({call, other}, IsOk());
  EXPECT_EQ((*call->answers[0])->group, *group->front());
  EXPECT_EQ(hooks_.num_formed, 1);
}

TEST_F(CompleteGroupTest, UsesOnlyTheFieldsOfTheGroup) {
  CollectiveRequest request = Request(1);
  request.op = Permute{};  // No permutation.
  const Answers first = Complete(0, request), second = Complete(1);
  EXPECT_THAT(*first, ElementsAre(IsOk()));
  EXPECT_THAT(*second, ElementsAre(IsOk()));
  request.group_size = 0;
  EXPECT_THAT(*Complete(0, request), ElementsAre(IsInvalidArgument("size 0")));
  request.group_size = 2;
  request.rank = 2;
  EXPECT_THAT(*Complete(0, request), ElementsAre(IsInvalidArgument("rank 2")));
  EXPECT_THAT(*Complete(0), ElementsAre(IsOk()));
}

TEST_F(CompleteGroupTest, ACancelledWaitLeavesNothingBehind) {
  const auto token = std::make_shared<Cancellation>();
  const Answers first = Complete(0, Request(1), token);
  token->Cancel(absl::CancelledError("no more"));
  EXPECT_THAT(*first, ElementsAre(IsCancelled("no more")));
  EXPECT_EQ(resolver_->num_groups(), 0u);
}

TEST_F(CompleteGroupTest, FieldsThatDoNotMatchEndTheGroupForAll) {
  const Answers first = Complete(0);
  size_ = 3;
  const Answers second = Complete(1);
  for (const Answers& answers : {first, second}) {
    EXPECT_THAT(*answers, ElementsAre(IsInvalidArgument("size 2", "size 3")));
  }
  resolver_->EndGroup(9, absl::CancelledError("over"));
  size_ = 2;
  const Answers third = Complete(0), fourth = Complete(1);
  EXPECT_THAT(*fourth, ElementsAre(IsOk()));
  resolver_->EndGroup(9, absl::CancelledError("over"));
  EXPECT_THAT((*third->front())->cancellation->status(), IsCancelled("over"));
}

}  // namespace param_resolver_local_test
}  // namespace tutti
