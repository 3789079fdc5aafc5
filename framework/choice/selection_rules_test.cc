#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/selection.h"

namespace tutti {
namespace selection_rules_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class NeverMade : public CollectiveFactory {
 public:
  using CollectiveFactory::CollectiveFactory;
  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return nullptr;
  }
};

class SelectionRulesTest : public testing::Test {
 protected:
  SelectionRulesTest() {
    Register("Ring", {.collectives = {CollectiveType::kAllReduce}});
    Register("Local", {.collectives = {CollectiveType::kAllReduce},
                       .needs_one_process = true});
  }

  void Register(const std::string& name, ImplementationTraits traits) {
    ASSERT_THAT(registry_.Register(
                    name, std::make_shared<NeverMade>(std::move(traits))),
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
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(StartsWith("f:1: "), HasSubstr("Rnig"),
                                      HasSubstr("Local, Ring"))));
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
  EXPECT_THAT(Check(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("f:0: the layout 1x8 is one process, "
                                  "but the rule is for several")));
  rules_.back().one_process = true;
  EXPECT_THAT(Check(), IsOk());
  Add(4, 9).layout = "1x8";
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(StartsWith("f:1"), HasSubstr("overlap"),
                                      HasSubstr("f:0"))));
}

TEST_F(SelectionRulesTest, ABarrierHasNoBytes) {
  Register("Meet", {.collectives = {CollectiveType::kBarrier}});
  Add(0, 9).implementation = "Meet";
  rules_.back().type = CollectiveType::kBarrier;
  EXPECT_THAT(Check(), IsOk());
  rules_.back().min_bytes = 3;
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                StartsWith("f:0: sizes begin at 3, but a "
                                           "barrier has 0 bytes")));
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
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(StartsWith("f:2: sizes of 4 to 9 bytes"),
                                      HasSubstr("0 to 4 bytes of f:1"))));
}

TEST_F(SelectionRulesTest, ARuleThatOthersLeaveNothingIsRefused) {
  Add(0, 4);
  Add(5, 9);
  Add(2, 7).layout = "2x2";
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(StartsWith("f:2: is never reached"),
                                      HasSubstr("f:1 and others before it "
                                                "take all"))));
  rules_[2].max_bytes = 10;
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(SelectionRulesTest, ARuleForWhatTheOneBeforeCannotServeIsFine) {
  Add(0, 9).implementation = "Local";
  Add(0, 9).one_process = false;
  EXPECT_THAT(Check(), IsOk());
  rules_[1].one_process = true;
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(StartsWith("f:1: is never reached"),
                                      HasSubstr("f:0, before it, takes all"))));
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
  Register("InAnyOrder", Demands(type_)[1].first);
  Register("InRankOrder", Demands(type_)[1].second);
  EXPECT_THAT(CheckPair("InAnyOrder", "InRankOrder", "2x2"),
              IsInvalidArgument("f:1: is never reached"));
}

TEST_F(RulesOfDemandsTest, OfRulesThatShareSizesEachIsSeen) {
  RegisterAll();
  CheckPair("Determinism1", "Determinism2", "").IgnoreError();
  Add(2, 3).implementation = "Determinism1";
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(StartsWith("f:2: sizes of 2 to 3 bytes "),
                                      HasSubstr("overlap"))));
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
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("100 to 101 bytes overlap"),
                                      HasSubstr("of f:50,"))));
}

}  // namespace selection_rules_test
}  // namespace tutti
