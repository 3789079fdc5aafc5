#include "tutti/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/reduction.h"

namespace tutti {
namespace selection_test {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class Nothing : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

const MergeOp kAppend =
    MergeOp::Custom(
        {.name = "append", .apply = [](auto...) { return absl::OkStatus(); }})
        .value();

double OneSecond(const CostQuery&) { return 1; }
double TwoSeconds(const CostQuery&) { return 2; }

// Makes short messages cheap.
double ASecondPerByte(const CostQuery& query) {
  return static_cast<double>(query.bytes);
}

double Priced(const CostQuery& query) {
  return query.model.within.latency_seconds * query.layout.size();
}

ImplementationTraits AllReduceTraits(double (*cost)(const CostQuery&)) {
  return {.collectives = {CollectiveType::kAllReduce}, .cost_seconds = cost};
}

class SelectionTest : public testing::Test {
 protected:
  void Register(const std::string& name, ImplementationTraits traits) {
    ASSERT_THAT(
        registry_.Register(name, Implemented<Nothing>(std::move(traits))),
        IsOk());
  }

  absl::StatusOr<Selection> Select() {
    return SelectImplementation(registry_, request_);
  }

  // Name of the selection, or the error.
  std::string Selected() {
    const auto selection = Select();
    return selection.ok() ? selection->name : selection.status().ToString();
  }

  std::string WhyNot(const std::string& name) {
    const auto selection = Select();
    if (!selection.ok()) return selection.status().ToString();
    for (const Candidate& candidate : selection->candidates) {
      if (candidate.name == name) return candidate.ruled_out;
    }
    return "no candidate";
  }

  const GroupLayout layout_ = GroupLayout::Uniform(2, 4);
  CollectiveRegistry registry_;
  SelectionRequest request_{.layout = layout_, .device_type = "CPU"};
};

TEST_F(SelectionTest, TheCheapestWins) {
  Register("A", AllReduceTraits(TwoSeconds));
  Register("B", AllReduceTraits(OneSecond));
  Register("C", AllReduceTraits(TwoSeconds));
  const auto selection = Select();
  ASSERT_THAT(selection, IsOk());
  EXPECT_EQ(selection->name, "B");
  EXPECT_EQ(selection->factory, *registry_.Find("B"));
}

TEST_F(SelectionTest, AmongEqualsTheFirstByNameWins) {
  Register("B", AllReduceTraits(OneSecond));
  Register("A", AllReduceTraits(OneSecond));
  Register("C", AllReduceTraits(OneSecond));
  EXPECT_EQ(Selected(), "A");
}

TEST_F(SelectionTest, AmongEqualsThatWinsWhoseResultsDependOnLeast) {
  ImplementationTraits by_rank = AllReduceTraits(OneSecond);
  by_rank.determinism = Determinism::kByRankOrder;
  Register("A", AllReduceTraits(OneSecond));
  Register("B", by_rank);
  Register("C", by_rank);
  EXPECT_EQ(Selected(), "B");
}

TEST_F(SelectionTest, TheSizeDecidesWhoIsCheapest) {
  Register("Latency", AllReduceTraits(ASecondPerByte));
  Register("Steady", AllReduceTraits(OneSecond));
  request_.bytes = 0;
  EXPECT_EQ(Selected(), "Latency");
  request_.bytes = 4;
  EXPECT_EQ(Selected(), "Steady");
}

TEST_F(SelectionTest, TheCostIsOfTheLayoutAndTheModel) {
  Register("Priced", AllReduceTraits(Priced));
  request_.model.within.latency_seconds = 3;
  const auto selection = Select();
  ASSERT_THAT(selection, IsOk());
  EXPECT_EQ(selection->candidates[0].cost_seconds, 24);
}

double SlowBetweenProcesses(const CostQuery& query) {
  return query.one_process ? 1 : 3;
}

TEST_F(SelectionTest, TheCostIsOfTheProcesses) {
  Register("Far", AllReduceTraits(SlowBetweenProcesses));
  Register("Near", AllReduceTraits(TwoSeconds));
  EXPECT_EQ(Selected(), "Near");
  request_.one_process = true;
  EXPECT_EQ(Selected(), "Far");
}

TEST_F(SelectionTest, WhatNeedsOneProcessServesNoGroupOfSeveral) {
  ImplementationTraits local = AllReduceTraits(OneSecond);
  local.needs_one_process = true;
  Register("Local", local);
  Register("Ring", AllReduceTraits(TwoSeconds));
  EXPECT_EQ(Select()->name, "Ring");
  request_.one_process = true;
  EXPECT_EQ(Select()->name, "Local");
  request_.one_process = false;
  request_.implementation = "Local";
  EXPECT_THAT(Select(),
              IsInvalidArgument("Local needs all members in one process"));
}

TEST_F(SelectionTest, ALibraryServesOnlyMembersThatItConnectsOneByOne) {
  ImplementationTraits delegated = AllReduceTraits(OneSecond);
  delegated.delegate = "Courier";
  Register("Delegated", delegated);
  Register("Ring", AllReduceTraits(TwoSeconds));
  const GroupLayout apart = GroupLayout::Uniform(3, 1);
  const GroupLayout in_pairs = GroupLayout::Uniform(2, 2);
  const auto select = [&](const GroupLayout& layout, const char* library,
                          const char* name) {
    return SelectImplementation(registry_, {.type = CollectiveType::kAllReduce,
                                            .layout = layout,
                                            .delegate = library,
                                            .implementation = name});
  };
  EXPECT_EQ(select(apart, "Courier", "")->name, "Delegated");
  EXPECT_EQ(select(apart, "", "")->name, "Ring");
  EXPECT_EQ(select(in_pairs, "Courier", "")->name, "Ring");
  EXPECT_THAT(select(apart, "Pigeon", "Delegated"),
              IsInvalidArgument("Delegated needs processes that Courier "
                                "connects; these can serve: Ring"));
  EXPECT_THAT(
      select(in_pairs, "Courier", "Delegated"),
      IsInvalidArgument("Delegated needs each member in a process of its own; "
                        "these can serve: Ring"));
}

TEST_F(SelectionTest, ALibraryBetweenProcessesServesSeveralMembersOfEach) {
  ImplementationTraits delegated = AllReduceTraits(OneSecond);
  delegated.delegate = "Courier";
  delegated.delegates_between_processes = true;
  Register("Delegated", delegated);
  const GroupLayout in_pairs = GroupLayout::Uniform(2, 2);
  const auto select = [&](const char* library) {
    return SelectImplementation(registry_, {.type = CollectiveType::kAllReduce,
                                            .layout = in_pairs,
                                            .delegate = library});
  };
  EXPECT_EQ(select("Courier")->name, "Delegated");
  EXPECT_THAT(select("Pigeon").status(),
              IsInvalidArgument("needs processes that Courier connects"));
}

TEST_F(SelectionTest, AnExplicitNameIsTakenEvenIfItIsDearer) {
  Register("Cheap", AllReduceTraits(OneSecond));
  Register("Dear", AllReduceTraits(TwoSeconds));
  request_.implementation = "Dear";
  const auto selection = Select();
  ASSERT_THAT(selection, IsOk());
  EXPECT_EQ(selection->name, "Dear");
  EXPECT_EQ(selection->factory, *registry_.Find("Dear"));
}

TEST_F(SelectionTest, AnUnknownNameIsNotFoundAndListsThoseThatCanServe) {
  Register("Barrier", {.collectives = {CollectiveType::kBarrier}});
  Register("Manual", AllReduceTraits(nullptr));
  Register("Ring", AllReduceTraits(OneSecond));
  Register("Tree", AllReduceTraits(OneSecond));
  request_.implementation = "Rng";
  EXPECT_THAT(Select(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"Rng\" (did you mean Ring?);"),
                             EndsWith(": Manual, Ring, Tree"))));
}

TEST_F(SelectionTest, ANameInTheWrongCaseIsNotFoundAndPointsAtTheRightOne) {
  Register("Ring", AllReduceTraits(OneSecond));
  request_.implementation = "ring";
  EXPECT_THAT(Select(), IsNotFound("\"ring\" (did you mean Ring?)"));
}

TEST_F(SelectionTest, ANamedOneThatCannotServeListsWhoCan) {
  Register("Barrier", {.collectives = {CollectiveType::kBarrier},
                       .cost_seconds = OneSecond});
  Register("Ring", AllReduceTraits(OneSecond));
  Register("Tree", AllReduceTraits(OneSecond));
  Register("Manual", AllReduceTraits(nullptr));
  request_.implementation = "Barrier";
  EXPECT_THAT(
      Select(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("Barrier does not do"), HasSubstr("all_reduce"),
                     HasSubstr("can serve: Manual, Ring, Tree"))));
}

TEST_F(SelectionTest, ANamedOneThatCannotServeSaysSoIfNobodyCan) {
  Register("Barrier", {.collectives = {CollectiveType::kBarrier},
                       .cost_seconds = OneSecond});
  request_.implementation = "Barrier";
  EXPECT_THAT(Select(), IsInvalidArgument("can serve: none"));
}

TEST_F(SelectionTest, NobodyCanServeSaysWhyOfEachThatDoesTheCollective) {
  Register("Barrier", {.collectives = {CollectiveType::kBarrier},
                       .cost_seconds = OneSecond});
  Register("Automatic", AllReduceTraits(nullptr));
  Register("Manual", AllReduceTraits(nullptr));
  EXPECT_THAT(Select(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "no registered implementation can do this all_reduce: "
                       "Automatic runs only when named; Manual runs only when "
                       "named"));
}

TEST_F(SelectionTest, NobodyDoesTheCollective) {
  Register("Barrier", {.collectives = {CollectiveType::kBarrier},
                       .cost_seconds = OneSecond});
  EXPECT_THAT(Select(), IsInvalidArgument("none that does is linked"));
}

TEST_F(SelectionTest, AnEmptyRegistrySaysThatNothingIsLinked) {
  EXPECT_THAT(Select(), IsInvalidArgument("none that does is linked"));
}

TEST_F(SelectionTest, WithoutACostItRunsOnlyWhenNamed) {
  Register("Manual", AllReduceTraits(nullptr));
  Register("Ring", AllReduceTraits(TwoSeconds));
  EXPECT_EQ(Selected(), "Ring");
  EXPECT_EQ(WhyNot("Manual"), "runs only when named");
  request_.implementation = "Manual";
  EXPECT_EQ(Selected(), "Manual");
}

TEST_F(SelectionTest, AnInfiniteCostIsNone) {
  Register("Infinite", AllReduceTraits([](const CostQuery&) {
             return std::numeric_limits<double>::infinity();
           }));
  EXPECT_THAT(Select(), IsInvalidArgument("Infinite runs only when named"));
  Register("Ring", AllReduceTraits(TwoSeconds));
  EXPECT_EQ(Selected(), "Ring");
  request_.implementation = "Infinite";
  EXPECT_EQ(Selected(), "Infinite");
}

TEST_F(SelectionTest, ANegativeCostIsNone) {
  Register("Negative",
           AllReduceTraits([](const CostQuery&) -> double { return -1; }));
  EXPECT_THAT(Select(), IsInvalidArgument("Negative runs only when named"));
  Register("Ring", AllReduceTraits(TwoSeconds));
  EXPECT_EQ(Selected(), "Ring");
}

TEST_F(SelectionTest, AnOpThatDoesNotCommuteNeedsTheRankOrder) {
  ImplementationTraits ordered = AllReduceTraits(TwoSeconds);
  ordered.preserves_rank_order = true;
  Register("Ordered", ordered);
  Register("Ring", AllReduceTraits(OneSecond));
  EXPECT_EQ(Selected(), "Ring");
  request_.merge_op = kAppend;
  EXPECT_EQ(Selected(), "Ordered");
  EXPECT_THAT(WhyNot("Ring"), HasSubstr("rank order"));
}

TEST_F(SelectionTest, WhereNothingIsReducedAnyOrderWillDo) {
  Register("Gather", {.collectives = {CollectiveType::kAllGather},
                      .cost_seconds = OneSecond});
  request_.type = CollectiveType::kAllGather;
  request_.merge_op = kAppend;
  EXPECT_EQ(Selected(), "Gather");
}

TEST_F(SelectionTest, WhoCannotReduceWithTheOpsIsRuledOut) {
  ImplementationTraits sums_alone = AllReduceTraits(OneSecond);
  sums_alone.collectives.push_back(CollectiveType::kAllGather);
  sums_alone.why_not_ops = [](DType dtype, const MergeOp& merge_op,
                              const FinalOp& final_op) -> std::string {
    if (dtype == DType::kInt8) return "has no int8";
    if (merge_op != ReductionKind::kSum) return "does sums alone";
    return final_op.is_identity() ? "" : "divides nothing";
  };
  Register("SumsAlone", sums_alone);
  Register("Ring", AllReduceTraits(TwoSeconds));
  EXPECT_EQ(Selected(), "SumsAlone");
  request_.final_op = FinalOp::DivideByGroupSize();
  EXPECT_EQ(Selected(), "Ring");
  EXPECT_EQ(WhyNot("SumsAlone"), "divides nothing");
  request_.merge_op = ReductionKind::kMax;
  EXPECT_EQ(WhyNot("SumsAlone"), "does sums alone");
  request_.dtype = DType::kInt8;
  EXPECT_EQ(WhyNot("SumsAlone"), "has no int8");
  request_.type = CollectiveType::kAllGather;
  EXPECT_EQ(Selected(), "SumsAlone");
}

TEST_F(SelectionTest, WhatCannotBeMadeOfItsPartsIsRuledOutAndNotPriced) {
  Register("Made",
           {.collectives = {CollectiveType::kAllReduce},
            .check_parts = [] { return absl::NotFoundError("nobody is Lost"); },
            .cost_seconds = [](const CostQuery&) -> double {
              ADD_FAILURE() << "a price was asked for";
              return 0;
            }});
  Register("Ring", {.collectives = {CollectiveType::kAllReduce},
                    .cost_seconds = TwoSeconds});
  EXPECT_EQ(Selected(), "Ring");
  EXPECT_EQ(WhyNot("Made"), "cannot be made of its parts: nobody is Lost");
  request_.implementation = "Made";
  EXPECT_THAT(SelectImplementation(registry_, request_).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("Made cannot be made of its parts: "
                                       "nobody is Lost"),
                             HasSubstr("these can serve: Ring"))));
}

TEST_F(SelectionTest, StepsMayBeWanted) {
  Register("Code", {.collectives = {CollectiveType::kAllReduce},
                    .cost_seconds = OneSecond});
  Register("Steps", {.collectives = {CollectiveType::kAllReduce},
                     .is_made_of_steps = true,
                     .cost_seconds = TwoSeconds});
  EXPECT_EQ(Selected(), "Code");
  request_.wants_steps = true;
  EXPECT_EQ(Selected(), "Steps");
  EXPECT_EQ(WhyNot("Code"), "is not made of steps");
}

TEST_F(SelectionTest, UnevenContributionsNeedWhoTakesThem) {
  Register("Even", {.collectives = {CollectiveType::kAllGather},
                    .cost_seconds = OneSecond});
  Register("Uneven", {.collectives = {CollectiveType::kAllGather},
                      .supports_uneven = true,
                      .cost_seconds = TwoSeconds});
  request_.type = CollectiveType::kAllGather;
  EXPECT_EQ(Selected(), "Even");
  request_.uneven = true;
  EXPECT_EQ(Selected(), "Uneven");
  EXPECT_THAT(WhyNot("Even"), HasSubstr("equal size"));
}

TEST_F(SelectionTest, ExplicitSubdivisionsNeedWhoHasThem) {
  ImplementationTraits divided = AllReduceTraits(TwoSeconds);
  divided.supports_subdivisions = true;
  Register("Ring", divided);
  Register("Tree", AllReduceTraits(OneSecond));
  EXPECT_EQ(Selected(), "Tree");
  request_.wants_subdivisions = true;
  EXPECT_EQ(Selected(), "Ring");
  EXPECT_THAT(WhyNot("Tree"), HasSubstr("subdivisions"));
}

TEST_F(SelectionTest, ListsOfRanksNeedWhoTakesThem) {
  ImplementationTraits ring = AllReduceTraits(TwoSeconds);
  ring.rank_list = RankListUse::kAllRanks;
  Register("Ring", ring);
  Register("Tree", AllReduceTraits(OneSecond));
  request_.num_listed_ranks = request_.layout.size();
  EXPECT_EQ(Selected(), "Ring");
  EXPECT_THAT(WhyNot("Tree"), HasSubstr("takes no list of ranks"));
  ImplementationTraits owners = AllReduceTraits(TwoSeconds);
  owners.rank_list = RankListUse::kOwners;
  Register("Shuffle", owners);
  --request_.num_listed_ranks;
  EXPECT_EQ(Selected(), "Shuffle");
  EXPECT_THAT(WhyNot("Ring"), HasSubstr("takes a list of all"));
}

class DeterminismDemandTest : public SelectionTest {
 protected:
  void RegisterOffer(const std::string& name, Determinism offer,
                     double (*cost)(const CostQuery&)) {
    ImplementationTraits traits = AllReduceTraits(cost);
    traits.determinism = offer;
    Register(name, traits);
  }
};

TEST_F(DeterminismDemandTest, TheCheapestOfThoseThatMeetItWins) {
  RegisterOffer("Any", Determinism::kNotGuaranteed, OneSecond);
  RegisterOffer("Fixed", Determinism::kFixedLayout, TwoSeconds);
  RegisterOffer("Ordered", Determinism::kByRankOrder, SlowBetweenProcesses);
  EXPECT_EQ(Selected(), "Any");
  request_.determinism = Determinism::kFixedLayout;
  EXPECT_EQ(Selected(), "Fixed");
  request_.determinism = Determinism::kByRankOrder;
  EXPECT_EQ(Selected(), "Ordered");
}

TEST_F(DeterminismDemandTest, IfNobodyMeetsItTheErrorSaysWhatEachOffers) {
  RegisterOffer("Any", Determinism::kNotGuaranteed, OneSecond);
  RegisterOffer("Fixed", Determinism::kFixedLayout, OneSecond);
  request_.determinism = Determinism::kByRankOrder;
  EXPECT_THAT(
      Select(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("all_reduce with determinism \"by rank order\""),
                     HasSubstr("Any offers determinism \"not guaranteed\""),
                     HasSubstr("Fixed offers determinism \"fixed layout\""))));
}

TEST_F(DeterminismDemandTest, ANamedOneBelowItIsAnErrorThatListsWhoMeetsIt) {
  RegisterOffer("Fixed", Determinism::kFixedLayout, OneSecond);
  RegisterOffer("Ordered", Determinism::kByRankOrder, TwoSeconds);
  request_.determinism = Determinism::kByRankOrder;
  request_.implementation = "Fixed";
  EXPECT_THAT(
      Select(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("Fixed offers determinism \"fixed layout\", "
                               "where \"by rank order\" is demanded"),
                     HasSubstr("can serve: Ordered"))));
}

class RulesTest : public SelectionTest {
 protected:
  RulesTest() {
    Register("Cheap", AllReduceTraits(OneSecond));
    Register("Dear", AllReduceTraits(TwoSeconds));
    ImplementationTraits local = AllReduceTraits(TwoSeconds);
    local.needs_one_process = true;
    Register("Local", local);
    Register("Manual", AllReduceTraits(nullptr));
    request_.bytes = 100;
  }

  // Adds a rule for all-reduces of 10 to 100 bytes, and returns it for changes.
  SelectionRule& Add(const std::string& implementation) {
    rules_.push_back(
        {.min_bytes = 10, .max_bytes = 100, .implementation = implementation});
    return rules_.back();
  }

  absl::StatusOr<Selection> Select() {
    return SelectImplementation(
        {.registry = &registry_,
         .rules =
             std::make_shared<const SelectionRules>(SelectionRules{rules_})},
        request_);
  }

  std::string Selected() {
    const auto selection = Select();
    return selection.ok() ? selection->name : selection.status().ToString();
  }

  std::vector<SelectionRule> rules_;
};

TEST_F(RulesTest, TheFirstThatMatchesBeatsTheModel) {
  Add("Dear");
  Add("Cheap");
  const auto selection = Select();
  ASSERT_THAT(selection, IsOk());
  EXPECT_EQ(selection->name, "Dear");
  EXPECT_EQ(selection->factory, *registry_.Find("Dear"));
  ASSERT_EQ(selection->matching_rules.size(), 1u);
  EXPECT_EQ(selection->matching_rules[0].why_not, "");
}

TEST_F(RulesTest, AnExplicitNameBeatsThem) {
  Add("Dear");
  request_.implementation = "Cheap";
  EXPECT_EQ(Selected(), "Cheap");
}

TEST_F(RulesTest, BothEndsOfTheSizesAreIncluded) {
  Add("Dear");
  for (const auto& [bytes, name] :
       {std::pair(9, "Cheap"), {10, "Dear"}, {100, "Dear"}, {101, "Cheap"}}) {
    request_.bytes = bytes;
    EXPECT_EQ(Selected(), name) << bytes;
  }
}

TEST_F(RulesTest, CollectiveLayoutAndProcessesHaveToMatch) {
  Add("Dear");
  EXPECT_EQ(Selected(), "Dear");
  rules_[0].type = CollectiveType::kBroadcast;
  EXPECT_EQ(Selected(), "Cheap");
  rules_[0] = {.layout = "2x4", .one_process = false, .implementation = "Dear"};
  EXPECT_EQ(Selected(), "Dear");
  rules_[0].layout = "4x2";
  EXPECT_EQ(Selected(), "Cheap");
  rules_[0] = {.one_process = true, .implementation = "Dear"};
  EXPECT_EQ(Selected(), "Cheap");
}

TEST_F(RulesTest, WhatRunsOnlyWhenNamedIsNamed) {
  Add("Manual");
  EXPECT_EQ(Selected(), "Manual");
}

TEST_F(RulesTest, OneWhoseImplementationCannotServeIsPassedOver) {
  Add("Local");
  Add("Gone");
  Add("Dear");
  const auto selection = Select();
  ASSERT_THAT(selection, IsOk());
  EXPECT_EQ(selection->name, "Dear");
  ASSERT_EQ(selection->matching_rules.size(), 3u);
  EXPECT_THAT(selection->matching_rules[0].why_not, HasSubstr("one process"));
  EXPECT_THAT(selection->matching_rules[1].why_not, HasSubstr("registered"));
  rules_.pop_back();
  EXPECT_EQ(Selected(), "Cheap");
}

TEST_F(RulesTest, ADemandForDeterminismBeatsThem) {
  ImplementationTraits ordered = AllReduceTraits(TwoSeconds);
  ordered.determinism = Determinism::kByRankOrder;
  Register("Ordered", ordered);
  Add("Dear");
  request_.determinism = Determinism::kByRankOrder;
  EXPECT_EQ(Selected(), "Ordered");
}

TEST_F(SelectionTest, ADeviceTypeNeedsWhoRunsOnIt) {
  ImplementationTraits gpu = AllReduceTraits(OneSecond);
  gpu.device_types = {"GPU", "TPU"};
  Register("Nccl", gpu);
  Register("Ring", AllReduceTraits(TwoSeconds));
  EXPECT_EQ(Selected(), "Ring");
  EXPECT_THAT(WhyNot("Nccl"), HasSubstr("runs on GPU, TPU, not on CPU"));
  request_.device_type = "GPU";
  EXPECT_EQ(Selected(), "Nccl");
}

// Group of two members. Only the first one has "Lib".
class DevicesTest : public RulesTest {
 protected:
  DevicesTest() {
    ImplementationTraits with_lib = AllReduceTraits(ASecondPerByte);
    with_lib.device_needs.library = "Lib";
    Register("WithLib", with_lib);
    ImplementationTraits with_key = AllReduceTraits(ASecondPerByte);
    with_key.needs_communicator_key = true;
    Register("WithKey", with_key);
    request_.bytes = 0;
    group_.layout = std::make_shared<const GroupLayout>(layout_of_two_);
    group_.members = {
        {.device = {.name = {"worker", 0, 0, "CPU", 0}, .libraries = {"Lib"}}},
        {.device = {.name = {"worker", 0, 1, "CPU", 0}}}};
    group_.runtime_details.key_status = absl::InternalError("no socket");
  }

  static constexpr char kWhyNoLib[] =
      "needs Lib, which rank 1 (/job:worker/replica:0/task:1/device:CPU:0) "
      "does not have";
  static constexpr char kWhyNoKey[] =
      "needs a key that the group's leader has not made: no socket";

  const GroupLayout layout_of_two_ = GroupLayout::Uniform(2, 1);
  CollGroupParams group_;
};

TEST_F(DevicesTest, WhatTheyLackRulesOut) {
  request_.group = &group_;
  EXPECT_EQ(Selected(), "Cheap");
  EXPECT_EQ(WhyNot("WithLib"), kWhyNoLib);
  EXPECT_EQ(WhyNot("WithKey"), kWhyNoKey);
  group_.members[1].device.libraries = {"Lib"};
  EXPECT_EQ(Selected(), "WithLib");
  group_.runtime_details.communicator_key = "key";
  EXPECT_EQ(Selected(), "WithKey");
}

TEST_F(DevicesTest, OfDevicesThatAreNotKnownNothingIsRuledOut) {
  EXPECT_EQ(WhyNot("WithLib"), "");
  EXPECT_EQ(WhyNot("WithKey"), "");
}

TEST_F(DevicesTest, ByNameTheSameIsAnError) {
  request_.group = &group_;
  for (const auto& [name, why_not] :
       {std::pair("WithLib", kWhyNoLib), {"WithKey", kWhyNoKey}}) {
    request_.implementation = name;
    EXPECT_THAT(Select(), StatusIs(absl::StatusCode::kInvalidArgument,
                                   absl::StrCat(name, " ", why_not,
                                                "; these can serve: Cheap, "
                                                "Dear, Manual")));
  }
}

TEST_F(DevicesTest, ARuleThatNamesItIsPassedOver) {
  request_.group = &group_;
  rules_ = {{.implementation = "WithLib"}, {.implementation = "Dear"}};
  const auto selection = Select();
  ASSERT_THAT(selection, IsOk());
  EXPECT_EQ(selection->name, "Dear");
  EXPECT_EQ(selection->matching_rules[0].why_not, kWhyNoLib);
}

TEST_F(SelectionTest, CandidatesAreAllThatAreRegisteredByName) {
  Register("B", AllReduceTraits(TwoSeconds));
  Register("A", {.collectives = {CollectiveType::kBarrier}});
  const auto selection = Select();
  ASSERT_THAT(selection, IsOk());
  ASSERT_EQ(selection->candidates.size(), 2u);
  EXPECT_EQ(selection->candidates[0].name, "A");
  EXPECT_NE(selection->candidates[0].ruled_out, "");
  EXPECT_EQ(selection->candidates[1].name, "B");
  EXPECT_EQ(selection->candidates[1].ruled_out, "");
  EXPECT_EQ(selection->candidates[1].cost_seconds, 2);
}

}  // namespace selection_test
}  // namespace tutti
