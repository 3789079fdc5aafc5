// Proves the traits and, where the implementation is a schedule, the schedules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "schedule/proof/standard_cases.h"
#include "schedule/proof/verifier.h"
#include "schedule/simulate/planned_outline.h"
#include "tests/conformance/implementation_under_test.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti::conformance {
namespace {

TEST(TraitsTest, SayWhatTheImplementationIsAndDoes) {
  const ImplementationTraits& traits = UnderTest().traits();
  EXPECT_NE(traits.summary, "");
  EXPECT_THAT(traits.collectives, testing::Not(testing::IsEmpty()));
}

TEST(TraitsTest, OnlyWhatCanBeUnevenClaimsToSupportIt) {
  if (!UnderTest().traits().supports_uneven) return;
  EXPECT_THAT(UnderTest().traits().collectives,
              testing::Contains(testing::AnyOf(CollectiveType::kAllGather,
                                               CollectiveType::kAllToAll)));
}

TEST(TraitsTest, SubdivisionsComeWithAFunctionThatChoosesThem) {
  if (UnderTest().algorithm == nullptr) GTEST_SKIP() << "not a schedule";
  EXPECT_EQ(UnderTest().traits().supports_subdivisions,
            UnderTest().algorithm->subdivide != nullptr);
}

class ScheduleTest : public testing::TestWithParam<int> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ScheduleTest);

TEST_P(ScheduleTest, KeepsItsPromisesInEveryStandardCase) {
  const int num_ranks = GetParam();
  const VerifyReport report = VerifyStandardCases(
      *UnderTest().algorithm, {.min_ranks = num_ranks, .max_ranks = num_ranks});
  EXPECT_GT(report.cases, 0);
  EXPECT_TRUE(report.first_failure.ok())
      << report.failed << " of " << report.cases
      << " cases fail; first: " << report.first_failure.message();
}

TEST_P(ScheduleTest, OutlineIsThatOfThePlans) {
  const Algorithm& algorithm = *UnderTest().algorithm;
  if (algorithm.outline == nullptr) GTEST_SKIP() << "no outline";
  const int num_ranks = GetParam();
  for (int tasks = 1; tasks <= num_ranks; ++tasks) {
    if (num_ranks % tasks != 0) continue;
    VerifyCase request = {.layout =
                              GroupLayout::Uniform(tasks, num_ranks / tasks)};
    if (algorithm.traits.supports_subdivisions) {
      request.subdiv_offsets = {0, -1, 2};
    }
    for (CollectiveType type : algorithm.traits.collectives) {
      request.type = type;
      EXPECT_THAT(CheckOutline(algorithm, request), IsOk());
    }
  }
}

std::vector<int> GroupSizes() {
  const int max_ranks = UnderTest().quick ? 8 : 64;
  std::vector<int> sizes;
  if (UnderTest().algorithm == nullptr || UnderTest().unproved) return sizes;
  for (int size = 1; size <= max_ranks; ++size) sizes.push_back(size);
  return sizes;
}

INSTANTIATE_TEST_SUITE_P(Ranks, ScheduleTest, testing::ValuesIn(GroupSizes()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti::conformance
