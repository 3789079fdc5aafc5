// Runs the implementation on real buffers and compares every bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/case_execution.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/rehearsal.h"
#include "tests/conformance/suite_params.h"
#include "tests/conformance/summation.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/work_driver.h"

namespace tutti::conformance {
namespace {

constexpr uint64_t kSeed = 20250304;  // Of inputs.

// Makes inputs only when they change.
class InputsOfCases {
 public:
  const std::shared_ptr<const Inputs>& For(const Case& c) {
    const bool is_same = inputs_ != nullptr && case_.dtype == c.dtype &&
                         case_.length == c.length && case_.rows == c.rows &&
                         case_.row_elements == c.row_elements;
    if (!is_same) inputs_ = MakeInputs(UnderTest(), c, kSeed);
    case_ = c;
    return inputs_;
  }

 private:
  Case case_;
  std::shared_ptr<const Inputs> inputs_;
};

// One group that runs one case after another.
class CaseRunner {
 public:
  CaseRunner(const Grid& grid, std::unique_ptr<WorkDriver> driver,
             Transfers transfers)
      : driver_(std::move(driver)), group_(grid, driver_.get(), transfers) {}

  // Text, empty if all is well.
  std::string Run(const Case& c, std::shared_ptr<const Expectation> expected) {
    CaseExecution execution(c, RequestsOf(c, UnderTest().name, ++last_key_),
                            std::move(expected));
    execution.CallAll(group_);
    driver_->RunAll();
    const std::string wrong = execution.CheckSuccess();
    if (wrong.empty()) return "";
    return absl::StrCat(ToString(c), ", ", driver_->ToString(), ": ", wrong);
  }

 private:
  const std::unique_ptr<WorkDriver> driver_;
  TestGroup group_;
  InstanceKey last_key_ = 0;
};

// Whether an all_reduce is specified to end with the same bits everywhere.
bool AllRanksGetTheSame(const Case& c, const Expectation& expected) {
  const auto same = [](const auto& a, const auto& b) {
    return (a.data() == b.data() && a.size() == b.size()) || a == b;
  };
  const auto first = expected.output(0);
  for (int rank = 1; rank < c.grid.size(); ++rank) {
    const auto output = expected.output(rank);
    if (!std::equal(output.begin(), output.end(), first.begin(), first.end(),
                    same)) {
      return false;
    }
  }
  return true;
}

// Runs the cases in two orders of work: as they come, and with every transfer
// put off.
void RunInTwoOrders(const std::vector<Case>& cases) {
  const Grid grid = cases.front().grid;
  CaseRunner at_once(grid, std::make_unique<SeededDriver>(1),
                     Transfers::kAtOnce);
  CaseRunner deferred(grid, std::make_unique<SeededDriver>(2),
                      Transfers::kDeferred);
  InputsOfCases inputs;
  for (const Case& c : cases) {
    const auto expected = Expectation::Create(UnderTest(), c, inputs.For(c));
    ASSERT_TRUE(expected.ok()) << ToString(c) << ": " << expected.status();
    if (c.type == CollectiveType::kAllReduce) {
      ASSERT_TRUE(AllRanksGetTheSame(c, **expected)) << ToString(c);
    }
    ASSERT_EQ(at_once.Run(c, *expected), "");
    ASSERT_EQ(deferred.Run(c, *expected), "");
  }
}

class MatrixTest : public testing::TestWithParam<TypeOnGrid> {};

TEST_P(MatrixTest, EveryRankEndsWithTheSpecifiedBits) {
  const auto& [type, grid, length] = GetParam();
  RunInTwoOrders(MatrixCases(UnderTest(), type, grid, length));
}

INSTANTIATE_TEST_SUITE_P(All, MatrixTest,
                         testing::ValuesIn(TypesOnGridsWithLengths()),
                         NameWithLength);

class ReductionTest : public testing::TestWithParam<TypeOnGrid> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReductionTest);

TEST_P(ReductionTest, EveryOpGivesTheSpecifiedBits) {
  RunInTwoOrders(ReductionCases(UnderTest(), GetParam().type, GetParam().grid));
}

INSTANTIATE_TEST_SUITE_P(All, ReductionTest,
                         testing::ValuesIn(TypesOnGrids(/*min_ranks=*/1,
                                                        Reduces)),
                         NameWithoutLength);

class SpecialCasesTest : public testing::TestWithParam<TypeOnGrid> {};

TEST_P(SpecialCasesTest, EveryRankEndsWithTheSpecifiedBits) {
  RunInTwoOrders(SpecialCases(UnderTest(), GetParam().type, GetParam().grid));
}

INSTANTIATE_TEST_SUITE_P(All, SpecialCasesTest,
                         testing::ValuesIn(TypesOnGrids(/*min_ranks=*/1)),
                         NameWithoutLength);

class SubdivisionTest : public testing::TestWithParam<TypeOnGrid> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SubdivisionTest);

TEST_P(SubdivisionTest, LargeChunksAreSubdividedAndEndWithTheSpecifiedBits) {
  const auto cases = SubdividedCases(GetParam().type, GetParam().grid);
  for (const Case& c : cases) {
    if (c.grid.size() == 2) continue;  // May be one step, with nothing to gain.
    ASSERT_GT(SubdivOffsetsOf(*UnderTest().algorithm, c).size(), 1u)
        << ToString(c);
  }
  RunInTwoOrders(cases);
}

int64_t NumTransfers(const Case& c) {
  SeededDriver driver(1);
  TestGroup group(c.grid, &driver, Transfers::kAtOnce);
  const auto rehearsal = Rehearsal::Create(c);
  EXPECT_EQ(rehearsal.ok() ? rehearsal->Succeeds(group)
                           : rehearsal.status().ToString(),
            "");
  return group.num_transfers();
}

// Bits alone need not show how many rings there were.
TEST_P(SubdivisionTest, EachSubdivisionHasItsOwnTransfers) {
  Case c = SubdividedCases(GetParam().type, GetParam().grid).front();
  const auto num_subdivs =
      static_cast<int64_t>(SubdivOffsetsOf(*UnderTest().algorithm, c).size());
  const int64_t num_transfers = NumTransfers(c);
  c.subdivisions = Subdivisions::kOne;
  EXPECT_EQ(num_transfers, num_subdivs * NumTransfers(c));
}

std::vector<TypeOnGrid> SubdividedTypesOnGrids() {
  std::vector<TypeOnGrid> params;
  const Algorithm* const algorithm = UnderTest().algorithm;
  const bool subdivides =
      algorithm != nullptr && algorithm->subdivide != nullptr;
  if (!subdivides || UnderTest().quick) return params;
  constexpr int kMostRanks = 3;
  for (const TypeOnGrid& param : TypesOnGrids(/*min_ranks=*/2)) {
    if (param.grid.size() <= kMostRanks) params.push_back(param);
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(All, SubdivisionTest,
                         testing::ValuesIn(SubdividedTypesOnGrids()),
                         NameWithoutLength);

class ConcurrencyTest : public testing::TestWithParam<TypeOnGrid> {};

// Several instances, each executed several times, all called at once.
void RunAllAtOnce(WorkDriver* driver, const std::vector<Case>& cases) {
  constexpr int kInstances = 3;
  constexpr int kExecutions = 4;
  TestGroup group(cases.front().grid, driver, Transfers::kDeferred);
  InputsOfCases inputs;
  InstanceKey last_key = 0;
  for (const Case& c : cases) {
    const auto expected = Expectation::Create(UnderTest(), c, inputs.For(c));
    ASSERT_TRUE(expected.ok()) << ToString(c) << ": " << expected.status();
    std::vector<std::unique_ptr<CaseExecution>> executions;
    for (int i = 0; i < kInstances * kExecutions; ++i) {
      const auto requests =
          RequestsOf(c, UnderTest().name, last_key + i % kInstances);
      executions.push_back(
          std::make_unique<CaseExecution>(c, requests, *expected));
      executions.back()->CallAll(group);
    }
    last_key += kInstances;
    driver->RunAll();
    for (const auto& execution : executions) {
      ASSERT_EQ(execution->CheckSuccess(), "")
          << ToString(c) << ", " << driver->ToString();
    }
  }
}

TEST_P(ConcurrencyTest, ExecutionsInAnyOrderDoNotDisturbEachOther) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SeededDriver driver(seed);
    RunAllAtOnce(&driver,
                 SampleCases(UnderTest(), GetParam().type, GetParam().grid));
  }
}

TEST_P(ConcurrencyTest, ExecutionsOnThreadsDoNotDisturbEachOther) {
  const auto driver = OnThreads(3);
  RunAllAtOnce(driver.get(),
               SampleCases(UnderTest(), GetParam().type, GetParam().grid));
}

INSTANTIATE_TEST_SUITE_P(All, ConcurrencyTest,
                         testing::ValuesIn(TypesOnGrids(/*min_ranks=*/1)),
                         NameWithoutLength);

class BarrierTest : public testing::TestWithParam<TypeOnGrid> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BarrierTest);

TEST_P(BarrierTest, NobodyLeavesBeforeAllHaveCome) {
  const Case c{.type = GetParam().type, .grid = GetParam().grid};
  const auto expected =
      Expectation::Create(UnderTest(), c, MakeInputs(UnderTest(), c, kSeed));
  ASSERT_TRUE(expected.ok()) << expected.status();
  SeededDriver driver(1);
  TestGroup group(c.grid, &driver, Transfers::kDeferred);
  const auto requests = RequestsOf(c, UnderTest().name, /*key=*/1);
  CaseExecution settling(c, requests, *expected);  // None could begin before.
  settling.CallAll(group);
  driver.RunAll();
  ASSERT_EQ(settling.CheckSuccess(), "");
  for (int late = 0; late < c.grid.size(); ++late) {
    CaseExecution execution(c, requests, *expected);
    for (int rank = 0; rank < c.grid.size(); ++rank) {
      if (rank != late) execution.Call(group, rank);
    }
    driver.RunAll();
    ASSERT_EQ(execution.num_ended(), 0) << "rank " << late << " is late";
    execution.Call(group, late);
    driver.RunAll();
    ASSERT_EQ(execution.CheckSuccess(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, BarrierTest,
                         testing::ValuesIn(TypesOnGrids(
                             /*min_ranks=*/2,
                             [](CollectiveType type) {
                               return type == CollectiveType::kBarrier;
                             })),
                         NameWithoutLength);

}  // namespace
}  // namespace tutti::conformance
