// The registry of implementations, and the choice among them: by name, by
// rules, by cost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/choice/delegate_cost.h"
#include "framework/choice/why_not.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/selection.h"

namespace tutti {
namespace choice_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::StartsWith;

// ---- The choice of an implementation: by name, by rules, by cost ----

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

  virtual absl::StatusOr<Selection> Select() {
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
  const auto selection = Select().value();
  EXPECT_EQ(selection.name, "B");
  EXPECT_EQ(selection.factory, *registry_.Find("B"));
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
  const auto selection = Select().value();
  EXPECT_EQ(selection.candidates[0].cost_seconds, 24);
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
  const auto selection = Select().value();
  EXPECT_EQ(selection.name, "Dear");
  EXPECT_EQ(selection.factory, *registry_.Find("Dear"));
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
  EXPECT_THAT(Select(), IsInvalidArgument("Barrier does not do", "all_reduce",
                                          "can serve: Manual, Ring, Tree"));
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

TEST_F(SelectionTest, AveragesOfIntegersNeedOneStepForAllInputs) {
  ImplementationTraits at_once = AllReduceTraits(TwoSeconds);
  at_once.reduces_at_once = true;
  Register("AtOnce", at_once);
  Register("Ring", AllReduceTraits(OneSecond));
  request_.dtype = DType::kInt8;
  EXPECT_EQ(Selected(), "Ring");
  request_.final_op = FinalOp::DivideByGroupSize();
  EXPECT_EQ(Selected(), "AtOnce");
  EXPECT_THAT(WhyNot("Ring"), HasSubstr("average of integers"));
  request_.implementation = "Ring";
  EXPECT_THAT(SelectImplementation(registry_, request_),
              IsInvalidArgument("Ring reduces in several steps",
                                "these can serve: AtOnce"));
  request_.dtype = DType::kFloat32;
  EXPECT_EQ(Selected(), "Ring");
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
              IsNotFound("Made cannot be made of its parts: "
                         "nobody is Lost",
                         "these can serve: Ring"));
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

TEST_F(SelectionTest, RowsOfOneRankAloneNeedWhoTakesThem) {
  Register("OfAll", {.collectives = {CollectiveType::kAllToAll},
                     .supports_uneven = true,
                     .cost_seconds = OneSecond});
  Register("OfOne", {.collectives = {CollectiveType::kAllToAll},
                     .supports_uneven = true,
                     .supports_recv_rows = true,
                     .cost_seconds = TwoSeconds});
  request_.type = CollectiveType::kAllToAll;
  request_.uneven = true;
  EXPECT_EQ(Selected(), "OfAll");
  request_.recv_rows = true;
  EXPECT_EQ(Selected(), "OfOne");
  EXPECT_THAT(WhyNot("OfAll"), HasSubstr("rows of all pairs"));
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
  EXPECT_THAT(Select(),
              IsInvalidArgument("all_reduce with determinism \"by rank order\"",
                                "Any offers determinism \"not guaranteed\"",
                                "Fixed offers determinism \"fixed layout\""));
}

TEST_F(DeterminismDemandTest, ANamedOneBelowItIsAnErrorThatListsWhoMeetsIt) {
  RegisterOffer("Fixed", Determinism::kFixedLayout, OneSecond);
  RegisterOffer("Ordered", Determinism::kByRankOrder, TwoSeconds);
  request_.determinism = Determinism::kByRankOrder;
  request_.implementation = "Fixed";
  EXPECT_THAT(Select(),
              IsInvalidArgument("Fixed offers determinism \"fixed layout\", "
                                "where \"by rank order\" is demanded",
                                "can serve: Ordered"));
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

  absl::StatusOr<Selection> Select() override {
    return SelectImplementation(
        {.registry = &registry_,
         .rules =
             std::make_shared<const SelectionRules>(SelectionRules{rules_})},
        request_);
  }

  std::vector<SelectionRule> rules_;
};

TEST_F(RulesTest, TheFirstThatMatchesBeatsTheModel) {
  Add("Dear");
  Add("Cheap");
  const auto selection = Select().value();
  EXPECT_EQ(selection.name, "Dear");
  EXPECT_EQ(selection.factory, *registry_.Find("Dear"));
  ASSERT_EQ(selection.matching_rules.size(), 1u);
  EXPECT_EQ(selection.matching_rules[0].why_not, "");
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
  const auto selection = Select().value();
  EXPECT_EQ(selection.name, "Dear");
  ASSERT_EQ(selection.matching_rules.size(), 3u);
  EXPECT_THAT(selection.matching_rules[0].why_not, HasSubstr("one process"));
  EXPECT_THAT(selection.matching_rules[1].why_not, HasSubstr("registered"));
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
  const auto selection = Select().value();
  EXPECT_EQ(selection.name, "Dear");
  EXPECT_EQ(selection.matching_rules[0].why_not, kWhyNoLib);
}

TEST_F(SelectionTest, CandidatesAreAllThatAreRegisteredByName) {
  Register("B", AllReduceTraits(TwoSeconds));
  Register("A", {.collectives = {CollectiveType::kBarrier}});
  const auto selection = Select().value();
  ASSERT_EQ(selection.candidates.size(), 2u);
  EXPECT_EQ(selection.candidates[0].name, "A");
  EXPECT_NE(selection.candidates[0].ruled_out, "");
  EXPECT_EQ(selection.candidates[1].name, "B");
  EXPECT_EQ(selection.candidates[1].ruled_out, "");
  EXPECT_EQ(selection.candidates[1].cost_seconds, 2);
}

// Matches the refusal of a rule: a message that begins with `start` and has all
// `texts`.
template <typename... Text>
auto IsRefused(const char* start, const Text&... texts) {
  return AllOf(StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(start)),
               IsInvalidArgument(texts...));
}

class SelectionRulesTest : public testing::Test {
 protected:
  SelectionRulesTest() {
    Register("Ring", {.collectives = {CollectiveType::kAllReduce}});
    Register("Local", {.collectives = {CollectiveType::kAllReduce},
                       .needs_one_process = true});
  }

  void Register(const std::string& name, ImplementationTraits traits) {
    ASSERT_THAT(
        registry_.Register(name, Implemented<Nothing>(std::move(traits))),
        IsOk());
  }

  // Adds a rule for Ring. Its name is the number of rules before.
  SelectionRule& Add(int64_t min_bytes, int64_t max_bytes) {
    const std::string where = "f:" + std::to_string(rules_.size());
    rules_.push_back({.min_bytes = min_bytes,
                      .max_bytes = max_bytes,
                      .implementation = "Ring",
                      .where = where});
    return rules_.back();
  }

  absl::Status Check() { return CheckRules(registry_, {rules_}); }

  CollectiveRegistry registry_;
  std::vector<SelectionRule> rules_;
};

TEST_F(SelectionRulesTest, RangesThatTouchAndWiderScopesLaterAreFine) {
  Add(0, 4).layout = "1x8";
  Add(5, 9).layout = "1x8";
  Add(5, 9).one_process = true;
  Add(0, 100);
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(SelectionRulesTest, AnUnknownImplementationListsTheKnown) {
  Add(0, 4);
  Add(5, 9).implementation = "Rnig";
  EXPECT_THAT(Check(), IsRefused("f:1: ", "Rnig", "Local, Ring"));
}

TEST_F(SelectionRulesTest, AnImplementationOfAnotherCollectiveIsRefused) {
  Add(0, 4).type = CollectiveType::kBarrier;
  EXPECT_THAT(Check(), IsInvalidArgument("f:0: Ring does not do barrier"));
}

TEST_F(SelectionRulesTest, WhatNeedsOneProcessIsRefusedForSeveral) {
  Add(0, 4).implementation = "Local";
  EXPECT_THAT(Check(), IsOk());
  rules_[0].one_process = false;
  EXPECT_THAT(Check(), IsInvalidArgument("f:0: Local needs all members"));
}

TEST_F(SelectionRulesTest, WhatCannotBeMadeOfItsPartsIsRefused) {
  Register("Made",
           {.collectives = {CollectiveType::kAllReduce}, .check_parts = [] {
              return absl::NotFoundError("there is no \"Lost\"");
            }});
  Add(0, 4).implementation = "Made";
  EXPECT_THAT(Check(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("f:0: Made cannot be made of its parts: "
                                  "there is no \"Lost\"")));
}

TEST_F(SelectionRulesTest, ALayoutOfOneTaskIsOneProcess) {
  Add(0, 4).layout = "1x8";
  rules_.back().one_process = false;
  EXPECT_THAT(Check(), IsRefused("f:0: the layout 1x8 is one process, "
                                 "but the rule is for several"));
  rules_.back().one_process = true;
  EXPECT_THAT(Check(), IsOk());
  Add(4, 9).layout = "1x8";
  EXPECT_THAT(Check(), IsRefused("f:1", "overlap", "f:0"));
}

TEST_F(SelectionRulesTest, ABarrierHasNoBytes) {
  Register("Meet", {.collectives = {CollectiveType::kBarrier}});
  Add(0, 9).implementation = "Meet";
  rules_.back().type = CollectiveType::kBarrier;
  EXPECT_THAT(Check(), IsOk());
  rules_.back().min_bytes = 3;
  EXPECT_THAT(Check(), IsRefused("f:0: sizes begin at 3, but a "
                                 "barrier has 0 bytes"));
}

TEST_F(SelectionRulesTest, ARangeWithoutSizesIsRefused) {
  Add(5, 4);
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                "f:0: no size is from 5 to 4 bytes"));
  rules_[0].min_bytes = -1;
  EXPECT_THAT(Check(), IsInvalidArgument("begin at -1"));
}

TEST_F(SelectionRulesTest, OverlappingRangesOfOneScopeAreRefused) {
  Add(0, 4).layout = "2x2";
  Add(0, 4);
  Add(4, 9);
  EXPECT_THAT(Check(),
              IsRefused("f:2: sizes of 4 to 9 bytes", "0 to 4 bytes of f:1"));
}

TEST_F(SelectionRulesTest, ARuleThatOthersLeaveNothingIsRefused) {
  Add(0, 4);
  Add(5, 9);
  Add(2, 7).layout = "2x2";
  EXPECT_THAT(Check(), IsRefused("f:2: is never reached",
                                 "f:1 and others before it "
                                 "take all"));
  rules_[2].max_bytes = 10;
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(SelectionRulesTest, ARuleForWhatTheOneBeforeCannotServeIsFine) {
  Add(0, 9).implementation = "Local";
  Add(0, 9).one_process = false;
  EXPECT_THAT(Check(), IsOk());
  rules_[1].one_process = true;
  EXPECT_THAT(Check(),
              IsRefused("f:1: is never reached", "f:0, before it, takes all"));
  // A later rule for the same implementation cannot serve these groups either.
  rules_[1] = {.layout = "2x2", .implementation = "Local", .where = "f:1"};
  rules_[1].max_bytes = 9;
  EXPECT_THAT(Check(), IsInvalidArgument("f:1: is never reached"));
}

TEST_F(SelectionRulesTest, OneAndSeveralProcessesTogetherLeaveNothing) {
  Add(0, 9).one_process = true;
  Add(0, 9).one_process = false;
  Add(2, 7);
  EXPECT_THAT(Check(), IsInvalidArgument("f:2: is never reached"));
  for (SelectionRule* rule : {&rules_[0], &rules_[1]}) {
    rule->max_bytes = 6;
    EXPECT_THAT(Check(), IsOk());
    rule->max_bytes = 9;
  }
}

TEST_F(SelectionRulesTest, WhatSomeGroupsCannotRunLeavesThoseToLaterRules) {
  const std::vector<CollectiveType> types = {CollectiveType::kAllReduce};
  Register("Types", {.collectives = types, .device_types = {"GPU"}});
  Register("Library",
           {.collectives = types, .device_needs = {.library = "nccl"}});
  Register("Units",
           {.collectives = types, .device_needs = {.own_units = true}});
  Register("Links",
           {.collectives = types, .device_needs = {.first_reaches_all = true}});
  Register("Key", {.collectives = types, .needs_communicator_key = true});
  Register("Delegate", {.collectives = types, .delegate = "mpi"});
  for (const char* name :
       {"Types", "Library", "Units", "Links", "Key", "Delegate"}) {
    rules_.clear();
    Add(0, 9).implementation = name;
    Add(0, 9).layout = "2x2";
    EXPECT_THAT(Check(), IsOk()) << name;
    rules_[1].implementation = name;
    EXPECT_THAT(Check(), IsInvalidArgument("f:1: is never reached")) << name;
  }
}

// Traits of two implementations. Only the second one can serve a demand.
struct Demand {
  const char* name;
  ImplementationTraits first, second;
};

std::vector<Demand> Demands(CollectiveType type) {
  const ImplementationTraits traits{.collectives = {type}};
  std::vector<Demand> demands = {
      {"Determinism", traits, traits},  {"RankOrder", traits, traits},
      {"Ops", traits, traits},          {"Uneven", traits, traits},
      {"Subdivisions", traits, traits}, {"AnyList", traits, traits},
      {"ShortList", traits, traits},    {"Steps", traits, traits}};
  demands[0].second.determinism = Determinism::kByRankOrder;
  demands[1].second.preserves_rank_order = true;
  demands[2].first.why_not_ops = [](DType, const MergeOp&, const FinalOp&) {
    return std::string("does not reduce so");
  };
  demands[3].second.supports_uneven = true;
  demands[4].second.supports_subdivisions = true;
  demands[5].second.rank_list = RankListUse::kAllRanks;
  demands[6].first.rank_list = RankListUse::kAllRanks;
  demands[6].second.rank_list = RankListUse::kOwners;
  demands[7].second.is_made_of_steps = true;
  return demands;
}

class RulesOfDemandsTest : public SelectionRulesTest {
 protected:
  // Checks a rule for any layout, followed by one for `layout`; empty: any
  // layout.
  absl::Status CheckPair(const std::string& first, const std::string& second,
                         const std::string& layout) {
    rules_.clear();
    Add(0, 9).implementation = first;
    Add(0, 9).implementation = second;
    for (SelectionRule& rule : rules_) rule.type = type_;
    rules_[1].layout = layout;
    return Check();
  }

  void RegisterAll() {
    for (const Demand& demand : Demands(type_)) {
      Register(std::string(demand.name) + "1", demand.first);
      Register(std::string(demand.name) + "2", demand.second);
    }
  }

  CollectiveType type_ = CollectiveType::kAllReduce;
};

TEST_F(RulesOfDemandsTest, WhatTheFirstCannotServeIsLeftToTheSecond) {
  RegisterAll();
  for (const std::string name :
       {"Determinism", "RankOrder", "Ops", "Subdivisions", "AnyList",
        "ShortList", "Steps"}) {
    EXPECT_THAT(CheckPair(name + "1", name + "2", "2x2"), IsOk()) << name;
    EXPECT_THAT(CheckPair(name + "1", name + "2", ""), IsOk()) << name;
  }
}

TEST_F(RulesOfDemandsTest, WhatTheFirstServesIsNotLeftToTheSecond) {
  RegisterAll();
  for (const std::string name : {"Determinism", "RankOrder", "Subdivisions",
                                 "Uneven", "AnyList", "ShortList", "Steps"}) {
    EXPECT_THAT(CheckPair(name + "2", name + "1", "2x2"),
                IsInvalidArgument("f:1: is never reached"))
        << name;
    EXPECT_THAT(CheckPair(name + "2", name + "1", ""),
                IsInvalidArgument("overlap"))
        << name;
  }
}

// Contributions to an all-reduce have one size.
TEST_F(RulesOfDemandsTest, NobodyAsksForWhatTheCollectiveHasNot) {
  RegisterAll();
  EXPECT_THAT(CheckPair("Uneven1", "Uneven2", "2x2"),
              IsInvalidArgument("f:1: is never reached"));
  type_ = CollectiveType::kAllGather;
  Register("Gather1", Demands(type_)[3].first);
  Register("Gather2", Demands(type_)[3].second);
  EXPECT_THAT(CheckPair("Gather1", "Gather2", "2x2"), IsOk());
  ImplementationTraits of_one = Demands(CollectiveType::kAllToAll)[3].second;
  Register("OfAll", of_one);
  of_one.supports_recv_rows = true;
  Register("OfOne", of_one);
  type_ = CollectiveType::kAllToAll;
  EXPECT_THAT(CheckPair("OfAll", "OfOne", "2x2"), IsOk());
  type_ = CollectiveType::kAllGather;
  Register("InAnyOrder", Demands(type_)[1].first);
  Register("InRankOrder", Demands(type_)[1].second);
  EXPECT_THAT(CheckPair("InAnyOrder", "InRankOrder", "2x2"),
              IsInvalidArgument("f:1: is never reached"));
}

TEST_F(RulesOfDemandsTest, OfRulesThatShareSizesEachIsSeen) {
  RegisterAll();
  CheckPair("Determinism1", "Determinism2", "").IgnoreError();
  Add(2, 3).implementation = "Determinism1";
  EXPECT_THAT(Check(), IsRefused("f:2: sizes of 2 to 3 bytes ", "overlap"));
  rules_[2].layout = "2x2";
  EXPECT_THAT(Check(), IsInvalidArgument("f:2: is never reached"));
}

TEST_F(SelectionRulesTest, OfOneScopeTheSecondIsForWhatTheFirstCannotServe) {
  Add(0, 9).implementation = "Local";
  Add(0, 9);
  EXPECT_THAT(Check(), IsOk());
  for (SelectionRule& rule : rules_) rule.one_process = true;
  EXPECT_THAT(Check(), IsInvalidArgument("overlap"));
}

// Largest number of rules in a file: a check of all pairs would take hours.
TEST_F(SelectionRulesTest, ManyRulesAreCheckedAtOnce) {
  constexpr int64_t kMany = 50'000;
  for (int64_t i = 0; i < kMany; ++i) Add(2 * i, 2 * i);
  for (int64_t i = 0; i < kMany; ++i) Add(0, 9).layout = std::to_string(i + 1);
  EXPECT_THAT(Check(), IsOk());
  Add(100, 101);
  EXPECT_THAT(Check(),
              IsInvalidArgument("100 to 101 bytes overlap", "of f:50,"));
}

std::shared_ptr<const CollectiveFactory> Factory(std::string summary = "") {
  return Implemented<Nothing>({.summary = std::move(summary),
                               .collectives = {CollectiveType::kAllReduce}});
}

TEST(RegistryTest, ADuplicateNameIsAlreadyExistsAndNamedAndTheFirstStays) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory("first")), IsOk());
  EXPECT_THAT(registry.Register("Ring", Factory("second")),
              IsAlreadyExists("Ring"));
  const auto found = registry.Find("Ring").value();
  EXPECT_EQ(found->traits().summary, "first");
}

TEST(RegistryTest, StatusKeepsTheFirstErrorOfAnyRegistration) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.status(), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  EXPECT_THAT(registry.status(), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), Not(IsOk()));
  ASSERT_THAT(registry.Register("", Factory()), Not(IsOk()));
  ASSERT_THAT(registry.Register("Tree", Factory()), IsOk());
  EXPECT_THAT(registry.status(), IsAlreadyExists("Ring"));
}

TEST(RegistryTest, AnEmptyNameIsInvalid) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("", Factory()), IsInvalidArgument("name"));
}

TEST(RegistryTest, NoFactoryIsInvalidAndNamed) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("Ring", nullptr), IsInvalidArgument("Ring"));
  EXPECT_THAT(registry.Find("Ring"), IsNotFound("Ring"));
}

TEST(RegistryTest, AFactoryOfNoCollectivesIsInvalidAndNamed) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("Ring", Implemented<Nothing>({})),
              IsInvalidArgument("Ring", "without collectives"));
}

TEST(RegistryTest, AnUnknownNameListsTheKnownOnes) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  ASSERT_THAT(registry.Register("Tree", Factory()), IsOk());
  EXPECT_THAT(registry.Find("Star"), IsNotFound("\"Star\"", "Ring, Tree"));
}

TEST(RegistryTest, AnUnknownNameGetsTheNearestKnownOne) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("RingReduce", Factory()), IsOk());
  ASSERT_THAT(registry.RegisterAlias("RingReducer", "RingReduce"), IsOk());
  EXPECT_THAT(registry.Find("ringreduce").status().message(),
              HasSubstr("(did you mean RingReduce?)"));
  EXPECT_THAT(registry.Find("RingRedcuers").status().message(),
              HasSubstr("(did you mean RingReducer?)"));
  EXPECT_THAT(registry.Find("Tree").status().message(),
              Not(HasSubstr("did you mean")));
}

TEST(RegistryTest, AnAliasFindsWhatItStandsFor) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.RegisterAlias("RingReducer", "Ring"), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  EXPECT_EQ(*registry.Find("RingReducer"), *registry.Find("Ring"));
  EXPECT_EQ(registry.Resolve("RingReducer"), "Ring");
  EXPECT_EQ(registry.Resolve("Ring"), "Ring");
  EXPECT_EQ(registry.List().size(), 1u);
}

TEST(RegistryTest, AnAliasThatIsTakenIsRefused) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  ASSERT_THAT(registry.RegisterAlias("Circle", "Ring"), IsOk());
  for (const char* taken : {"Ring", "Circle"}) {
    EXPECT_THAT(registry.RegisterAlias(taken, "Tree"), IsAlreadyExists(taken));
  }
  EXPECT_THAT(registry.Register("Circle", Factory()),
              IsAlreadyExists("Circle"));
}

class BareClass : public Nothing {
 public:
  static ImplementationTraits Traits() {
    return {.summary = "registered by its class",
            .collectives = {CollectiveType::kBarrier}};
  }
};

REGISTER_COLLECTIVE(RegisteredBareClass, BareClass);

TEST(RegistryTest, ABareClassIsRegisteredWithItsTraits) {
  const auto found =
      CollectiveRegistry::Global().Find("RegisteredBareClass").value();
  EXPECT_EQ(found->traits().summary, "registered by its class");
  EXPECT_NE(dynamic_cast<BareClass*>(found->Create().get()), nullptr);
}

TEST(RegistryTest, ListsInTheOrderOfNames) {
  CollectiveRegistry registry;
  for (const char* name : {"Tree", "Ring", "Star"}) {
    ASSERT_THAT(registry.Register(name, Factory(name)), IsOk());
  }
  std::vector<std::string> names;
  for (const auto& entry : registry.List()) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.factory->traits().summary, entry.name);
  }
  EXPECT_THAT(names, ElementsAre("Ring", "Star", "Tree"));
}

TEST(RegistryTest, AFactoryMakesAnObjectOfItsClassEachTime) {
  const auto factory = Factory();
  const auto first = factory->Create();
  const auto second = factory->Create();
  EXPECT_NE(dynamic_cast<const Nothing*>(first.get()), nullptr);
  EXPECT_NE(first, second);
}

// Nothing here names registry_test_plugin.cc; the program only links it.
TEST(RegistryTest, LinkingALibraryIsEnoughToRegisterWhatItHas) {
  const auto found = CollectiveRegistry::Global().Find("LinkedPlugin").value();
  EXPECT_EQ(found->traits().summary, "registered by linking alone");
  EXPECT_THAT(CollectiveRegistry::Global().status(), IsOk());
}

TEST(RegistryTest, ThreadsMayRegisterAndLookUpAtATime) {
  constexpr int kThreads = 4;
  constexpr int kNames = 50;
  CollectiveRegistry registry;
  std::vector<std::thread> threads;
  std::vector<int> num_registered(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&registry, &count = num_registered[thread]] {
      for (int i = 0; i < kNames; ++i) {
        const std::string name = absl::StrCat("Ring", i);
        if (registry.Register(name, Factory(name)).ok()) ++count;
        const auto found = registry.Find(name).value();
        EXPECT_EQ(found->traits().summary, name);
        EXPECT_GE(registry.List().size(), static_cast<size_t>(i + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int total = 0;
  for (int count : num_registered) total += count;
  EXPECT_EQ(total, kNames);
  EXPECT_EQ(registry.List().size(), size_t{kNames});
  EXPECT_THAT(registry.status(), IsAlreadyExists("Ring"));
}

// Returns `num_tasks` tasks of two devices. Each device has the library and a
// unit for itself.
CollGroupParams GroupOf(int num_tasks) {
  CollGroupParams group;
  group.device_type = "GPU";
  group.layout = std::make_shared<const GroupLayout>(
      GroupLayout::Uniform(num_tasks, /*devices_per_task=*/2));
  for (int rank = 0; rank < 2 * num_tasks; ++rank) {
    group.members.push_back(
        {.device = {.name = {"worker", 0, rank / 2, "GPU", rank % 2},
                    .libraries = {"Other", "Lib"},
                    .unit = std::string(1, static_cast<char>('a' + rank))}});
  }
  return group;
}

DeviceAttributes& Device(CollGroupParams& group, int rank) {
  return group.members[static_cast<size_t>(rank)].device;
}

TEST(DeviceNeedsTest, WhoNeedsNothingRunsOnAnyDevices) {
  CollGroupParams group = GroupOf(2);
  for (CollGroupMember& member : group.members) {
    member.device.libraries.clear();
    member.device.unit = "a";
  }
  EXPECT_THAT(WhyNotOn(group, {}), IsEmpty());
}

TEST(DeviceNeedsTest, EachMemberNeedsTheLibrary) {
  CollGroupParams group = GroupOf(2);
  const DeviceNeeds needs = {.library = "Lib"};
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  Device(group, 3).libraries = {"Other"};
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs Lib, which rank 3 (/job:worker/replica:0/task:1/device:GPU:1"
            ") does not have");
  Device(group, 1).libraries = {};
  Device(group, 2).libraries = {"lib"};
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs Lib, which rank 1 (/job:worker/replica:0/task:0/device:GPU:1"
            ") and 2 more do not have");
}

TEST(DeviceNeedsTest, UnitsAreShared) {
  CollGroupParams group = GroupOf(2);
  const DeviceNeeds needs = {.own_units = true};
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  Device(group, 3).unit = Device(group, 0).unit;
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs each member on a GPU of its own, but ranks 0 and 3 "
            "(/job:worker/replica:0/task:0/device:GPU:0 and "
            "/job:worker/replica:0/task:1/device:GPU:1) are on one");
}

TEST(DeviceNeedsTest, ADeviceThatNamesNoUnitSharesNone) {
  CollGroupParams group = GroupOf(2);
  for (CollGroupMember& member : group.members) member.device.unit.clear();
  EXPECT_THAT(WhyNotOn(group, {.own_units = true}), IsEmpty());
}

TEST(DeviceNeedsTest, TheFirstReachesAllByLinks) {
  CollGroupParams group = GroupOf(1);
  const DeviceNeeds needs = {.first_reaches_all = true};
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs links from rank 0 (/job:worker/replica:0/task:0/device:GPU:0"
            ") to all, but none leads to rank 1 "
            "(/job:worker/replica:0/task:0/device:GPU:1)");
  Device(group, 1).locality.links = {{.device_index = 0}};  // Wrong direction.
  EXPECT_THAT(WhyNotOn(group, needs), HasSubstr("none leads to rank 1"));
  Device(group, 0).locality.links = {{.device_index = 7}, {.device_index = 1}};
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
}

TEST(DeviceNeedsTest, TheFirstReachesWhatIsOnItsOwnUnit) {
  CollGroupParams group = GroupOf(2);
  const DeviceNeeds needs = {.first_reaches_all = true};
  for (CollGroupMember& member : group.members) member.device.unit = "a";
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  for (CollGroupMember& member : group.members) member.device.unit = "";
  EXPECT_THAT(WhyNotOn(group, needs), HasSubstr("none leads to rank 1"));
}

TEST(DeviceNeedsTest, LinksLeadToDevicesOfTheSameTask) {
  CollGroupParams group = GroupOf(2);
  Device(group, 0).locality.links = {{.device_index = 0}, {.device_index = 1}};
  EXPECT_THAT(WhyNotOn(group, {.first_reaches_all = true}),
              HasSubstr("none leads to rank 2 "));
}

TEST(DeviceNeedsTest, WithinTasksOtherTasksDoNotMatter) {
  CollGroupParams group = GroupOf(2);
  const DeviceNeeds needs = {
      .library = "Lib", .own_units = true, .within_tasks = true};
  Device(group, 2).unit = Device(group, 0).unit;
  Device(group, 3).unit = Device(group, 1).unit;
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  Device(group, 3).unit = Device(group, 2).unit;
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs each member of a task on a GPU of its own, but ranks 2 and "
            "3 (/job:worker/replica:0/task:1/device:GPU:0 and "
            "/job:worker/replica:0/task:1/device:GPU:1) are on one");
}

TEST(DeviceNeedsTest, WithinTasksWhoIsAloneThereNeedsNothing) {
  CollGroupParams group = GroupOf(1);
  group.members.push_back({.device = {.name = {"worker", 0, 1, "GPU", 0}}});
  group.layout =
      std::make_shared<const GroupLayout>(*GroupLayout::Create({0, 0, 1}));
  DeviceNeeds needs = {.library = "Lib", .within_tasks = true};
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  needs.within_tasks = false;
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs Lib, which rank 2 (/job:worker/replica:0/task:1/device:GPU:0"
            ") does not have");
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Seconds(int num_tasks, int64_t bytes, bool one_process = false) {
  const GroupLayout layout =
      GroupLayout::Uniform(num_tasks, /*devices_per_task=*/1);
  return DelegateSeconds(
      {.layout = layout, .bytes = bytes, .one_process = one_process});
}

TEST(DelegateCostTest, IsInfiniteWithinOneProcess) {
  EXPECT_EQ(Seconds(1, 4), kInfinity);
  EXPECT_EQ(Seconds(4, 4, /*one_process=*/true), kInfinity);
}

TEST(DelegateCostTest, FewBytesCostLessThanOneMessage) {
  for (const int num_tasks : {2, 3, 8, 64}) {
    EXPECT_LT(Seconds(num_tasks, 4), CostModel().between.latency_seconds);
  }
}

TEST(DelegateCostTest, GrowsWithBytesAndTasks) {
  for (const int64_t bytes : {int64_t{4}, int64_t{1} << 20, int64_t{1} << 26}) {
    EXPECT_LT(Seconds(2, bytes), Seconds(2, 2 * bytes));
    EXPECT_LT(Seconds(4, bytes), Seconds(8, bytes));
  }
}

TEST(DelegateCostTest, BytesAboveTheCachesCostMoreAmongMoreThanTwo) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  EXPECT_GT(Seconds(4, kBytes), 4.5 * Seconds(4, kBytes / 4));
  EXPECT_LT(Seconds(2, kBytes), 4.5 * Seconds(2, kBytes / 4));
}

}  // namespace choice_test
}  // namespace tutti
