// Tasks check the leader's decisions: a peer may be wrong, or have another
// implementation under the same name, or this task may not have it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "framework/collective/group_resources.h"
#include "framework/executor/executor_core.h"
#include "framework/peer/local_peer_access.h"
#include "resolvers/local/instance_check.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace decided_implementation_test {

class NeverRun : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback) override {}
};

ImplementationTraits TraitsOf(CollectiveType type) {
  ImplementationTraits traits{.summary = "for tests", .collectives = {type}};
  traits.cost_seconds = [](const CostQuery&) { return 1.0; };
  return traits;
}

void Register(CollectiveRegistry& registry, const std::string& name,
              ImplementationTraits traits) {
  ASSERT_THAT(registry.Register(name, Implemented<NeverRun>(std::move(traits))),
              IsOk());
}

constexpr CollectiveType kWanted = CollectiveType::kAllReduce;

// Status of the second task's call, where `decided` has the name of the
// implementation that the first task, the leader, chooses for an all_reduce.
absl::Status AnswerFor(ImplementationTraits decided) {
  CollectiveRegistry leaders, others;
  Register(leaders, "Chosen", TraitsOf(kWanted));
  Register(others, "Chosen", std::move(decided));
  SimulatedCluster cluster(
      {.policies = {{.registry = &leaders}, {.registry = &others}}});
  cluster.StartAll();
  const CollectiveRequest request =
      AllReduceOf(/*group_key=*/7, /*size=*/2, /*instance_key=*/1);
  const auto first = cluster.Request(0, 0, request);
  const auto second = cluster.Request(1, 0, request);
  cluster.RunFor(absl::Seconds(1));
  EXPECT_THAT(first->status(), IsOk());
  return second->status();
}

TEST(DecidedImplementationTest, RunsIfItServes) {
  EXPECT_THAT(AnswerFor(TraitsOf(kWanted)), IsOk());
}

TEST(DecidedImplementationTest, IsRefusedIfItDoesSomethingElse) {
  EXPECT_THAT(
      AnswerFor(TraitsOf(CollectiveType::kPermute)),
      IsInvalidArgument("instance.implementation is Chosen, which does not do "
                        "all_reduce"));
}

TEST(DecidedImplementationTest, IsRefusedIfItNeedsAllMembersHere) {
  ImplementationTraits traits = TraitsOf(kWanted);
  traits.needs_one_process = true;
  EXPECT_THAT(AnswerFor(traits),
              IsInvalidArgument("which needs all members in one process"));
}

class CheckDecidedTest : public testing::Test {
 protected:
  CheckDecidedTest() {
    SimulatedCluster cluster({});
    cluster.StartAll();
    const CollectiveRequest request = AllReduceOf(7, 2, 1);
    const auto call = cluster.Request(0, 0, request);
    cluster.Request(1, 0, request);
    cluster.RunFor(absl::Seconds(1));
    params_ = call->params();
    instance_ = *params_.instance;
  }

  absl::Status Check(const std::string& wanted = "") const {
    return CheckDecided({.registry = &registry_}, *params_.group, *params_.task,
                        instance_, wanted);
  }

  CollectiveRegistry registry_;
  CollectiveParams params_;
  CollInstanceParams instance_;
};

TEST_F(CheckDecidedTest, ItIsTheOneThatWasNamed) {
  instance_.impl_details.implementation = "Chosen";
  EXPECT_THAT(Check("Chosen"), IsOk());
  EXPECT_THAT(Check("Other"),
              IsInvalidArgument("is Chosen, but Other was named"));
}

TEST_F(CheckDecidedTest, WhatIsNotKnownHereIsLeftToWhoLooksItUp) {
  instance_.impl_details.implementation = "UnheardOf";
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(CheckDecidedTest, SubdivisionsComeWithWhatHasThem) {
  ImplementationTraits traits = TraitsOf(kWanted);
  Register(registry_, "Whole", traits);
  traits.is_made_of_steps = traits.supports_subdivisions = true;
  Register(registry_, "Divided", traits);
  instance_.impl_details.implementation = "Divided";
  instance_.impl_details.subdiv_offsets = {};
  EXPECT_THAT(Check(), IsInvalidArgument("which needs subdivisions"));
  instance_.impl_details.subdiv_offsets = {0};
  EXPECT_THAT(Check(), IsOk());
  instance_.impl_details.implementation = "Whole";
  EXPECT_THAT(Check(), IsInvalidArgument("which has no subdivisions"));
}

constexpr GroupKey kGroup = 7;

// Answers at once that a group is settled, in which the device has rank 0.
class ResolverDouble : public ParamResolverInterface {
 public:
  void CompleteParamsAsync(const DeviceAttributes& device,
                           std::shared_ptr<const CollectiveRequest>, CallNumber,
                           std::shared_ptr<Cancellation>, Done done) override {
    CollGroupParams group;
    group.key = kGroup;
    group.generation = 1;
    group.members = {{device}, {device}};
    group.cancellation = std::make_shared<Cancellation>();
    group.resources = std::make_shared<GroupResources>();
    CollInstanceParams instance;
    instance.impl_details.implementation = "UnheardOf";
    CollectiveParams params;
    params.group = std::make_shared<const CollGroupParams>(std::move(group));
    params.instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
    params.task = std::make_shared<const CollTaskParams>(
        CollTaskParams{.is_local = {true, false}, .num_local = 1});
    std::move(done)(
        std::make_shared<const CollectiveParams>(std::move(params)));
  }
  std::string DescribeWaiting(const CollectiveRequest&) override { return ""; }
  void GiveUp(InstanceId instance, CallNumber number,
              const absl::Status& reason) override {
    EXPECT_EQ(instance.group_key, kGroup);
    EXPECT_EQ(number, CallNumber{});
    given_up = reason;
  }
  void EndGroup(GroupKey, absl::Status) override { has_ended = true; }

  std::optional<absl::Status> given_up;
  bool has_ended = false;
};

absl::Status CallWith(const std::shared_ptr<ResolverDouble>& resolver) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto devices = DeviceManager::CreateCpu(
      /*num_tasks=*/1, /*devices_per_task=*/1, environment.get().random);
  if (!devices.ok()) return devices.status();
  const auto executor =
      MakeCollectiveExecutor({.environment = environment.get(),
                              .devices = devices->get(),
                              .param_resolver = resolver,
                              .peers = std::make_unique<LocalPeerAccess>()});
  auto request = std::make_shared<CollectiveRequest>();
  request->group_key = kGroup;
  request->group_size = 2;
  request->op = AllReduce{};
  request->shape = TensorShape::Vector(7);
  absl::Status status = absl::UnknownError("it has not ended");
  executor->ExecuteAsync(
      {.device = (*devices)->devices()[0], .request = std::move(request)},
      [&status](absl::Status ended) { status = std::move(ended); });
  return status;
}

// At this point the execution has no key to tell other tasks of a failure.
TEST(UnknownImplementationTest, IsGivenUpSoThatOtherTasksDoNotWait) {
  const auto resolver = std::make_shared<ResolverDouble>();
  const absl::Status status = CallWith(resolver);
  EXPECT_THAT(status, IsNotFound("UnheardOf"));
  EXPECT_EQ(resolver->given_up, status);
  EXPECT_FALSE(resolver->has_ended);
}

}  // namespace decided_implementation_test
}  // namespace tutti
