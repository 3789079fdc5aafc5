#include "implementations/two_level/local_then_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "implementations/two_level/local_then.h"
#include "schedule/engine/stand_in.h"
#include "schedule/proof/expression.h"
#include "schedule/proof/standard_cases.h"
#include "schedule/proof/symbolic.h"
#include "schedule/proof/verifier.h"
#include "schedule/proof/written_expression.h"
#include "schedule/simulate/planned_outline.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {
namespace local_then_plan_test {

using ::testing::Combine;
using ::testing::HasSubstr;
using ::testing::Values;

REGISTER_COLLECTIVE(PlannedThenShuffle, LocalThenFactory<"ShuffleReduce">());
REGISTER_COLLECTIVE(PlannedThenNobody, LocalThenFactory<"Nobody">());
REGISTER_COLLECTIVE(ThenThenRing, LocalThenFactory<"LocalThenRing">());
REGISTER_COLLECTIVE(ThenCourier,
                    LocalThenDelegateFactory("Courier", "by courier"));

absl::StatusOr<StandIn> StandInFor(absl::string_view name) {
  return StandInOf(**CollectiveRegistry::Global().Find(name));
}

Algorithm AlgorithmFor(absl::string_view name) {
  return StandInFor(name)->algorithm;
}

const std::vector<const char*>& Names() {
  static const auto* const names = new std::vector<const char*>{
      "LocalThenRing", "LocalThenRecursiveDoubling",
      "LocalThenRecursiveHalvingDoubling", "LocalThenDoubleTree",
      "PlannedThenShuffle"};
  return *names;
}

GroupLayout LayoutOf(const std::vector<int>& devices) {
  std::vector<int> tasks;
  for (size_t task = 0; task < devices.size(); ++task) {
    tasks.insert(tasks.end(), static_cast<size_t>(devices[task]),
                 static_cast<int>(task));
  }
  return *GroupLayout::Create(tasks);
}

VerifyCase CaseOf(const Algorithm& algorithm, const GroupLayout& layout,
                  std::vector<int> offsets = {0}) {
  if (!algorithm.traits.supports_subdivisions) offsets.clear();
  return {.layout = layout, .subdiv_offsets = std::move(offsets)};
}

// Returns the final value of each chunk of `rank` (written_expression.h).
std::vector<std::string> OutputsOf(const Algorithm& algorithm,
                                   const VerifyCase& request, int rank) {
  const auto run = Symbolically(algorithm, request);
  EXPECT_THAT(run.status(), IsOk());
  Evaluator<WrittenExpression> write(run->expressions, {});
  std::vector<std::string> written;
  for (const ExpressionId id : run->outputs[static_cast<size_t>(rank)]) {
    written.push_back(write(id));
  }
  return written;
}

class LocalThenPlanTest
    : public testing::TestWithParam<std::tuple<const char*, std::vector<int>>> {
 protected:
  const Algorithm algorithm_ = AlgorithmFor(std::get<0>(GetParam()));
  const GroupLayout layout_ = LayoutOf(std::get<1>(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(
    NamesAndDevices, LocalThenPlanTest,
    Combine(testing::ValuesIn(Names()),
            Values(std::vector<int>{1}, std::vector<int>{4},
                   std::vector<int>{1, 1, 1, 1}, std::vector<int>{2, 2},
                   std::vector<int>{4, 4}, std::vector<int>{3, 1, 2},
                   std::vector<int>{3, 3, 3, 3}, std::vector<int>{2, 5, 3})));

TEST_P(LocalThenPlanTest, IsProvedRight) {
  for (const std::vector<int>& offsets :
       {std::vector<int>{0}, {0, -1, 2}, {0, 0, 0, 0}}) {
    for (const InPlace in_place :
         {InPlace::kNone, InPlace::kAll, InPlace::kEvenRanks}) {
      VerifyCase request = CaseOf(algorithm_, layout_, offsets);
      request.in_place = in_place;
      EXPECT_THAT(Verify(algorithm_, request), IsOk()) << ToString(request);
    }
  }
}

TEST_P(LocalThenPlanTest, TheOutlineIsThatOfThePlans) {
  for (const std::vector<int>& offsets :
       {std::vector<int>{0}, {0, -1, 2}, {0, 0, 0, 0}}) {
    const VerifyCase request = CaseOf(algorithm_, layout_, offsets);
    EXPECT_THAT(CheckOutline(algorithm_, request), IsOk()) << ToString(request);
  }
}

TEST(LocalThenStandInTest, IsProvedRightInAllStandardCases) {
  for (const char* name : Names()) {
    const VerifyReport report =
        VerifyStandardCases(AlgorithmFor(name), {.max_ranks = 16});
    EXPECT_GT(report.cases, 0);
    EXPECT_THAT(report.first_failure, IsOk()) << name;
  }
}

TEST(LocalThenStandInTest, EveryTaskIsReducedInOneStepInRankOrder) {
  const Algorithm ring = AlgorithmFor("LocalThenRing");
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_THAT(OutputsOf(ring, CaseOf(ring, LayoutOf({3, 2})), rank),
                testing::ElementsAre("f((3.0+4.0)+(0.0+1.0+2.0))",
                                     "f((0.1+1.1+2.1)+(3.1+4.1))"));
  }
}

TEST(LocalThenStandInTest, BetweenTasksIsTheScheduleOfThatName) {
  const GroupLayout firsts = GroupLayout::Uniform(5, 1);
  for (const auto& [name, between] :
       {std::pair{"LocalThenRing", "RingReduce"},
        {"LocalThenRecursiveDoubling", "RecursiveDoublingReduce"},
        {"LocalThenRecursiveHalvingDoubling", "RecursiveHalvingDoublingReduce"},
        {"LocalThenDoubleTree", "DoubleTreeReduce"},
        {"PlannedThenShuffle", "ShuffleReduce"}}) {
    const Algorithm whole = AlgorithmFor(name);
    const Algorithm part = AlgorithmFor(between);
    for (int rank = 0; rank < firsts.size(); ++rank) {
      EXPECT_EQ(OutputsOf(whole, CaseOf(whole, firsts), rank),
                OutputsOf(part, CaseOf(part, firsts), rank))
          << name;
    }
  }
}

TEST(LocalThenStandInTest, SubdivisionsAreThoseOfAChunkAmongFirstRanks) {
  const Algorithm whole = AlgorithmFor("LocalThenRing");
  const Algorithm ring = AlgorithmFor("RingReduce");
  const GroupLayout layout = GroupLayout::Uniform(2, 4);
  const GroupLayout firsts = GroupLayout::Uniform(2, 1);
  for (const int64_t bytes : {int64_t{1000}, kLocalThenChunkBytes}) {
    EXPECT_EQ(whole.subdivide({.layout = layout, .bytes = bytes}),
              ring.subdivide({.layout = firsts, .bytes = bytes}));
  }
  EXPECT_EQ(
      whole.subdivide({.layout = layout, .bytes = 8 * kLocalThenChunkBytes}),
      ring.subdivide({.layout = firsts, .bytes = kLocalThenChunkBytes}));
  EXPECT_EQ(AlgorithmFor("LocalThenRecursiveDoubling").subdivide, nullptr);
}

TEST(LocalThenStandInTest, TheOutlineIsMadeOfThatOfTheScheduleBetween) {
  const Algorithm doubling = AlgorithmFor("LocalThenRecursiveDoubling");
  EXPECT_EQ((*OutlineOf(doubling,
                        CaseOf(doubling, GroupLayout::Uniform(64, 1000)), 0))
                ->size()
                .num_rounds,
            1 + 6 + 2);
  const Algorithm ring = AlgorithmFor("LocalThenRing");
  const auto outline =
      OutlineOf(ring, CaseOf(ring, GroupLayout::Uniform(1000, 100)), 0);
  ASSERT_THAT(outline.status(), IsOk());
  EXPECT_EQ((*outline)->size().num_rounds, 1 + 2 * 999 + 2);
  EXPECT_EQ((*outline)->size().period, 100);
  const VerifyCase one_each = CaseOf(ring, GroupLayout::Uniform(100'000, 1));
  EXPECT_TRUE((*OutlineOf(ring, one_each, 0))->size().is_ring);
  // Only plans know the rounds in which tasks begin.
  EXPECT_THAT(
      OutlineOf(ring, CaseOf(ring, LayoutOf({3, 1})), 0).status(),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 0")));
}

TEST(LocalThenStandInTest, SaysWhatRunsOtherwise) {
  EXPECT_THAT(StandInFor("LocalThenRing")->note,
              HasSubstr("within a task, passes over memory"));
  EXPECT_EQ(StandInFor("RingReduce")->note, "");
}

TEST(LocalThenStandInTest, ThereIsNoneWithoutAScheduleBetween) {
  EXPECT_THAT(StandInFor("PlannedThenNobody").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Nobody")));
  EXPECT_THAT(StandInFor("ThenThenRing").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("LocalThenRing is no schedule")));
  EXPECT_THAT(StandInFor("ThenCourier").status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("Courier")));
}

}  // namespace local_then_plan_test
}  // namespace tutti
