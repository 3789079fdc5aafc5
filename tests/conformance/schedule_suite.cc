// Proves the traits and, of implementations that are schedules, the schedules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedule/proof/standard_cases.h"
#include "schedule/proof/verifier.h"
#include "schedule/simulate/outline_testing.h"
#include "tests/conformance/tested_implementation.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti::conformance {
namespace {

std::vector<const ImplementationUnderTest*> All() {
  std::vector<const ImplementationUnderTest*> all;
  for (const auto& under_test : UnderTest()) all.push_back(&under_test);
  return all;
}

class TraitsTest
    : public testing::TestWithParam<const ImplementationUnderTest*> {
 protected:
  const ImplementationTraits& traits() const { return GetParam()->traits(); }
};

TEST_P(TraitsTest, SayWhatTheImplementationIsAndDoes) {
  EXPECT_NE(traits().summary, "");
  EXPECT_THAT(traits().collectives, testing::Not(testing::IsEmpty()));
}

TEST_P(TraitsTest, OnlyWhatCanBeUnevenClaimsToSupportIt) {
  if (!traits().supports_uneven) return;
  EXPECT_THAT(traits().collectives,
              testing::Contains(testing::Truly(HasRankBlocks)));
}

TEST_P(TraitsTest, SubdivisionsComeWithAFunctionThatChoosesThem) {
  const Algorithm* const algorithm = GetParam()->algorithm;
  if (algorithm == nullptr) GTEST_SKIP() << "not a schedule";
  EXPECT_EQ(traits().supports_subdivisions, algorithm->subdivide != nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, TraitsTest, testing::ValuesIn(All()),
                         [](const auto& info) { return info.param->name; });

// An algorithm in groups of one size.
struct SizedAlgorithm {
  std::string name;
  const Algorithm* algorithm;
  int num_ranks;

  friend void PrintTo(const SizedAlgorithm& sized, std::ostream* out) {
    *out << sized.name << " on " << sized.num_ranks << " ranks";
  }
};

class ScheduleTest : public testing::TestWithParam<SizedAlgorithm> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ScheduleTest);

TEST_P(ScheduleTest, KeepsItsPromisesInEveryStandardCase) {
  const auto& [name, algorithm, num_ranks] = GetParam();
  const VerifyReport report = VerifyStandardCases(
      *algorithm, {.min_ranks = num_ranks, .max_ranks = num_ranks});
  EXPECT_GT(report.cases, 0);
  EXPECT_TRUE(report.first_failure.ok())
      << report.failed << " of " << report.cases
      << " cases fail; first: " << report.first_failure.message();
}

TEST_P(ScheduleTest, OutlineIsThatOfThePlans) {
  const auto& [name, algorithm, num_ranks] = GetParam();
  if (algorithm->outline == nullptr) GTEST_SKIP() << "no outline";
  for (int tasks = 1; tasks <= num_ranks; ++tasks) {
    if (num_ranks % tasks != 0) continue;
    VerifyCase request = {.layout =
                              GroupLayout::Uniform(tasks, num_ranks / tasks)};
    if (algorithm->traits.supports_subdivisions) {
      request.subdiv_offsets = {0, -1, 2};
    }
    for (CollectiveType type : algorithm->traits.collectives) {
      request.type = type;
      EXPECT_THAT(CheckOutline(*algorithm, request), IsOk());
    }
  }
}

int MostRanks(Tier tier) {
  switch (tier) {
    case Tier::kQuick:
      return 8;
    case Tier::kDefault:
      return 16;
    case Tier::kDeep:
      return 64;
  }
  return 0;
}

std::vector<SizedAlgorithm> SizedAlgorithms() {
  std::vector<SizedAlgorithm> sized;
  for (const ImplementationUnderTest& under_test : UnderTest()) {
    if (under_test.algorithm == nullptr || !under_test.is_proved) continue;
    for (int size = 1; size <= MostRanks(under_test.tier); ++size) {
      sized.push_back({under_test.name, under_test.algorithm, size});
    }
  }
  return sized;
}

INSTANTIATE_TEST_SUITE_P(Ranks, ScheduleTest,
                         testing::ValuesIn(SizedAlgorithms()),
                         [](const auto& info) {
                           return absl::StrCat(info.param.name, "_",
                                               info.param.num_ranks);
                         });

}  // namespace
}  // namespace tutti::conformance
