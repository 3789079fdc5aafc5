#include "schedule/proof/standard_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tutti/schedule.h"

namespace tutti {
namespace standard_cases_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Schedule DoNothing(const PlanRequest&) { return {.num_chunks = 1}; }

std::vector<int> SubdivideInFive(const SubdivisionRequest&) {
  return {0, 1, 2, 3, 4};
}

std::vector<VerifyCase> CasesOf(CollectiveType type, const CaseLimits& limits,
                                bool subdivides = false) {
  Algorithm algorithm = {
      .traits = {.collectives = {type}, .supports_subdivisions = subdivides},
      .plan = DoNothing};
  if (subdivides) algorithm.subdivide = SubdivideInFive;
  std::vector<VerifyCase> cases;
  ForEachStandardCase(algorithm, limits, [&](const VerifyCase& request) {
    cases.push_back(request);
    return true;
  });
  return cases;
}

std::set<std::string> LayoutsOf(const std::vector<VerifyCase>& cases) {
  std::set<std::string> layouts;
  for (const VerifyCase& request : cases) {
    layouts.insert(request.layout.ToString());
  }
  return layouts;
}

TEST(StandardCasesTest, HaveEverySizeAsOneTaskAndAsOneTaskPerRank) {
  const auto layouts = LayoutsOf(CasesOf(CollectiveType::kBarrier, {}));
  for (int size = 1; size <= 64; ++size) {
    EXPECT_THAT(layouts, Contains(GroupLayout::Uniform(1, size).ToString()));
    EXPECT_THAT(layouts, Contains(GroupLayout::Uniform(size, 1).ToString()));
  }
  for (const char* mixed : {"8x8", "4x8", "3+1+2"}) {
    EXPECT_THAT(layouts, Contains(mixed));
  }
}

TEST(StandardCasesTest, HaveAllLayoutsOfFewEqualTasks) {
  const auto layouts = LayoutsOf(CasesOf(CollectiveType::kBarrier, {}));
  for (int num_tasks = 1; num_tasks <= 16; ++num_tasks) {
    for (int devices = 1; num_tasks * devices <= 16; ++devices) {
      EXPECT_THAT(
          layouts,
          Contains(GroupLayout::Uniform(num_tasks, devices).ToString()));
    }
  }
}

TEST(StandardCasesTest, HaveTasksWhoseRanksAreScattered) {
  const auto cases =
      CasesOf(CollectiveType::kBarrier, {.min_ranks = 7, .max_ranks = 7});
  EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [](const auto& request) {
    return request.layout.tasks()[0] == std::vector<int>{0, 3, 6};
  }));
}

TEST(StandardCasesTest, HaveEveryRootInEveryMode) {
  const auto cases =
      CasesOf(CollectiveType::kReduce, {.min_ranks = 64, .max_ranks = 64});
  std::set<std::pair<int, InPlace>> seen;
  for (const VerifyCase& request : cases) {
    seen.insert({request.root, request.in_place});
  }
  EXPECT_EQ(seen.size(), 64u * 4);
}

TEST(StandardCasesTest, HaveDifferentPermutations) {
  const auto cases =
      CasesOf(CollectiveType::kPermute, {.min_ranks = 8, .max_ranks = 8});
  std::set<std::vector<int>> seen;
  for (const VerifyCase& request : cases) seen.insert(request.permutation);
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_THAT(seen, Contains(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_THAT(seen, Contains(std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_THAT(seen, Contains(std::vector<int>{7, 0, 1, 2, 3, 4, 5, 6}));
}

TEST(StandardCasesTest, HaveSubdivisionsWhereSupported) {
  std::set<std::vector<int>> seen;
  for (const VerifyCase& request :
       CasesOf(CollectiveType::kAllReduce, {.max_ranks = 2},
               /*subdivides=*/true)) {
    seen.insert(request.subdiv_offsets);
  }
  EXPECT_THAT(seen, ElementsAre(std::vector<int>{0}, std::vector<int>{0, -1},
                                std::vector<int>{0, 1, -2, -3},
                                std::vector<int>{0, 1, 2, 3, 4}));
  for (const VerifyCase& request :
       CasesOf(CollectiveType::kAllReduce, {.max_ranks = 2})) {
    EXPECT_TRUE(request.subdiv_offsets.empty());
  }
}

TEST(StandardCasesTest, AreFewBeyondTheThoroughSizes) {
  std::set<int> sizes;
  std::set<int> roots;
  for (const VerifyCase& request :
       CasesOf(CollectiveType::kReduce, {.min_ranks = 65, .max_ranks = 300})) {
    sizes.insert(request.layout.size());
    if (request.layout.size() == 256) roots.insert(request.root);
  }
  EXPECT_THAT(sizes, ElementsAre(65, 127, 128, 129, 255, 256, 257, 300));
  EXPECT_THAT(roots, ElementsAre(0, 1, 128, 255));
}

TEST(StandardCasesTest, EndWhenTheVisitorHasSeenEnough) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kReduce}}, .plan = DoNothing};
  int seen = 0;
  ForEachStandardCase(algorithm, {},
                      [&](const VerifyCase&) { return ++seen < 10; });
  EXPECT_EQ(seen, 10);
}

// A plan that is right for one rank and wrong for more.
Schedule CopyOnly(const PlanRequest&) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().CopyAndFinish(Data(0), Input(0));
  return builder.Build();
}

TEST(VerifyStandardCasesTest, ReportsCountsAndTheFirstFailure) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kAllReduce}},
      .plan = CopyOnly};
  const VerifyReport report = VerifyStandardCases(algorithm, {.max_ranks = 3});
  EXPECT_EQ(report.cases, 4 + 2 * 4 + 2 * 4);
  EXPECT_EQ(report.failed, 2 * 4 + 2 * 4);
  EXPECT_EQ(report.num_sizes, 3);
  EXPECT_EQ(report.largest_group, 3);
  EXPECT_THAT(std::string(report.first_failure.message()),
              HasSubstr("all_reduce on 1x2: wrong output: data[0] of rank 0 "
                        "lacks input[0] of rank 1"));
}

TEST(VerifyStandardCasesTest, ProgressSeesEveryCaseAndCanEndTheRun) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kAllReduce}},
      .plan = CopyOnly};
  std::vector<int64_t> cases;
  const VerifyReport report =
      VerifyStandardCases(algorithm, {}, [&](const VerifyReport& so_far) {
        cases.push_back(so_far.cases);
        return so_far.failed == 0;
      });
  EXPECT_THAT(cases, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(report.failed, 1);
}

}  // namespace standard_cases_test
}  // namespace tutti
