// Tasks check the leader's decisions: a peer may be wrong, or have another
// implementation under the same name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "resolvers/local/instance_check.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"

namespace tutti {
namespace decided_implementation_test {

using absl::StatusCode;
using testing::HasSubstr;

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
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("instance.implementation is Chosen, which does not do "
                         "all_reduce")));
}

TEST(DecidedImplementationTest, IsRefusedIfItNeedsAllMembersHere) {
  ImplementationTraits traits = TraitsOf(kWanted);
  traits.needs_one_process = true;
  EXPECT_THAT(AnswerFor(traits),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("which needs all members in one process")));
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
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("is Chosen, but Other was named")));
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
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("which needs subdivisions")));
  instance_.impl_details.subdiv_offsets = {0};
  EXPECT_THAT(Check(), IsOk());
  instance_.impl_details.implementation = "Whole";
  EXPECT_THAT(Check(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("which has no subdivisions")));
}

}  // namespace decided_implementation_test
}  // namespace tutti
