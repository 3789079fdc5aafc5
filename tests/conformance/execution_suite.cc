// Runs the implementation on real buffers and compares every bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/conformance/case.h"
#include "tests/conformance/case_execution.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/rehearsal.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/tested_implementation.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti::conformance {
namespace {

constexpr uint64_t kSeed = 20250304;  // Of inputs.

// Makes inputs only when they change.
class InputsOfCases {
 public:
  explicit InputsOfCases(const ImplementationUnderTest& under_test)
      : under_test_(under_test) {}

  const std::shared_ptr<const Inputs>& For(const Case& c) {
    const bool is_same = inputs_ != nullptr && case_.dtype == c.dtype &&
                         case_.length == c.length && case_.rows == c.rows &&
                         case_.row_elements == c.row_elements;
    if (!is_same) inputs_ = MakeInputs(under_test_, c, kSeed);
    case_ = c;
    return inputs_;
  }

 private:
  const ImplementationUnderTest& under_test_;
  Case case_;
  std::shared_ptr<const Inputs> inputs_;
};

// Group that runs one case after another.
class CaseRunner {
 public:
  CaseRunner(std::string implementation, const Grid& grid,
             std::unique_ptr<WorkDriver> driver, Transfers transfers)
      : implementation_(std::move(implementation)),
        driver_(std::move(driver)),
        group_(grid, driver_.get(), transfers) {}

  // Text, empty if all is well.
  std::string Run(const Case& c, std::shared_ptr<const Expectation> expected) {
    CaseExecution execution(c, RequestsOf(c, implementation_, ++last_key_),
                            std::move(expected));
    execution.CallAll(group_);
    driver_->RunAll();
    const std::string wrong = execution.CheckSuccess();
    if (wrong.empty()) return "";
    return absl::StrCat(ToString(c), ", ", driver_->ToString(), ": ", wrong);
  }

 private:
  const std::string implementation_;
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

// Orders of work: as work comes and with every transfer put off, or the latter
// alone.
enum class Orders : uint8_t { kBoth, kDeferred };

Orders OrdersOfLargeCases(Tier tier) {
  return tier == Tier::kDeep ? Orders::kBoth : Orders::kDeferred;
}

void RunCases(const ImplementationUnderTest& under_test,
              const std::vector<Case>& cases, Orders orders = Orders::kBoth) {
  const Grid grid = cases.front().grid;
  CaseRunner at_once(under_test.name, grid, std::make_unique<SeededDriver>(1),
                     Transfers::kAtOnce);
  CaseRunner deferred(under_test.name, grid, std::make_unique<SeededDriver>(2),
                      Transfers::kDeferred);
  InputsOfCases inputs(under_test);
  for (const Case& c : cases) {
    const auto expected = Expectation::Create(under_test, c, inputs.For(c));
    ASSERT_TRUE(expected.ok()) << ToString(c) << ": " << expected.status();
    if (c.type == CollectiveType::kAllReduce) {
      ASSERT_TRUE(AllRanksGetTheSame(c, **expected)) << ToString(c);
    }
    if (orders == Orders::kBoth) {
      ASSERT_EQ(at_once.Run(c, *expected), "");
    }
    ASSERT_EQ(deferred.Run(c, *expected), "");
  }
}

class MatrixTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MatrixTest);

TEST_P(MatrixTest, EveryRankEndsWithTheSpecifiedBits) {
  const auto& [under_test, type, grid, length] = GetParam();
  RunCases(*under_test, MatrixCases(*under_test, type, grid, length),
           length == kLargestLength ? OrdersOfLargeCases(under_test->tier)
                                    : Orders::kBoth);
}

INSTANTIATE_TEST_SUITE_P(All, MatrixTest,
                         testing::ValuesIn(ClaimsWithLengths()),
                         NameWithLength);

class ReductionTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReductionTest);

TEST_P(ReductionTest, EveryOpGivesTheSpecifiedBits) {
  const auto& [under_test, type, grid, length] = GetParam();
  RunCases(*under_test, ReductionCases(*under_test, type, grid));
}

INSTANTIATE_TEST_SUITE_P(All, ReductionTest,
                         testing::ValuesIn(ClaimsOnGrids(/*min_ranks=*/1,
                                                         Reduces)),
                         NameWithoutLength);

class SpecialCasesTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SpecialCasesTest);

TEST_P(SpecialCasesTest, EveryRankEndsWithTheSpecifiedBits) {
  const auto& [under_test, type, grid, length] = GetParam();
  RunCases(*under_test, SpecialCases(*under_test, type, grid));
  if (Reduces(type))
    RunCases(*under_test, FactorCases(*under_test, type, grid));
}

INSTANTIATE_TEST_SUITE_P(All, SpecialCasesTest,
                         testing::ValuesIn(ClaimsOnGrids(/*min_ranks=*/1)),
                         NameWithoutLength);

class SubdivisionTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SubdivisionTest);

TEST_P(SubdivisionTest, LargeChunksAreSubdividedAndEndWithTheSpecifiedBits) {
  const auto& [under_test, type, grid, length] = GetParam();
  const auto cases = SubdividedCases(type, grid, under_test->tier);
  for (const Case& c : cases) {
    if (c.grid.size() == 2) continue;  // May be one step, with nothing to gain.
    ASSERT_GT(SubdivOffsetsOf(*under_test->algorithm, c).size(), 1u)
        << ToString(c);
  }
  RunCases(*under_test, cases, OrdersOfLargeCases(under_test->tier));
}

int64_t NumTransfers(const ImplementationUnderTest& under_test, const Case& c) {
  SeededDriver driver(1);
  TestGroup group(c.grid, &driver, Transfers::kAtOnce);
  const auto rehearsal = Rehearsal::Create(under_test, c);
  EXPECT_EQ(rehearsal.ok() ? rehearsal->Succeeds(group)
                           : rehearsal.status().ToString(),
            "");
  return group.num_transfers();
}

// Bits alone need not show how many rings there were.
TEST_P(SubdivisionTest, EachSubdivisionHasItsOwnTransfers) {
  const auto& [under_test, type, grid, length] = GetParam();
  Case c = SubdividedCases(type, grid, under_test->tier).front();
  const auto num_subdivs =
      static_cast<int64_t>(SubdivOffsetsOf(*under_test->algorithm, c).size());
  const int64_t num_transfers = NumTransfers(*under_test, c);
  c.subdivisions = Subdivisions::kOne;
  EXPECT_EQ(num_transfers, num_subdivs * NumTransfers(*under_test, c));
}

// Groups of 2 and 3, or in Tier::kDefault those of 3, which take several steps.
bool RunsSubdivided(const Claim& claim) {
  const Algorithm* const algorithm = claim.under_test->algorithm;
  if (algorithm == nullptr || algorithm->subdivide == nullptr) return false;
  switch (claim.under_test->tier) {
    case Tier::kQuick:
      return false;
    case Tier::kDefault:
      return claim.grid.size() == 3;
    case Tier::kDeep:
      return claim.grid.size() <= 3;
  }
  return false;
}

std::vector<Claim> SubdividedClaims() {
  std::vector<Claim> claims = ClaimsOnGrids(/*min_ranks=*/2);
  claims.erase(
      std::remove_if(claims.begin(), claims.end(), std::not_fn(RunsSubdivided)),
      claims.end());
  return claims;
}

INSTANTIATE_TEST_SUITE_P(All, SubdivisionTest,
                         testing::ValuesIn(SubdividedClaims()),
                         NameWithoutLength);

class ConcurrencyTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ConcurrencyTest);

// Several instances, each executed several times, all called at once.
void RunAllAtOnce(WorkDriver* driver, const Claim& claim) {
  constexpr int kInstances = 3;
  constexpr int kExecutions = 4;
  const ImplementationUnderTest& under_test = *claim.under_test;
  TestGroup group(claim.grid, driver, Transfers::kDeferred);
  InputsOfCases inputs(under_test);
  InstanceKey last_key = 0;
  for (const Case& c : SampleCases(under_test, claim.type, claim.grid)) {
    const auto expected = Expectation::Create(under_test, c, inputs.For(c));
    ASSERT_TRUE(expected.ok()) << ToString(c) << ": " << expected.status();
    std::vector<std::unique_ptr<CaseExecution>> executions;
    for (int i = 0; i < kInstances * kExecutions; ++i) {
      const auto requests =
          RequestsOf(c, under_test.name, last_key + i % kInstances);
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
    RunAllAtOnce(&driver, GetParam());
  }
}

TEST_P(ConcurrencyTest, ExecutionsOnThreadsDoNotDisturbEachOther) {
  const auto driver = OnThreads(3);
  RunAllAtOnce(driver.get(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, ConcurrencyTest,
                         testing::ValuesIn(ClaimsOnGrids(/*min_ranks=*/1)),
                         NameWithoutLength);

class BarrierTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BarrierTest);

TEST_P(BarrierTest, NobodyLeavesBeforeAllHaveCome) {
  const ImplementationUnderTest& under_test = *GetParam().under_test;
  const Case c{.type = GetParam().type, .grid = GetParam().grid};
  const auto expected =
      Expectation::Create(under_test, c, MakeInputs(under_test, c, kSeed));
  ASSERT_TRUE(expected.ok()) << expected.status();
  SeededDriver driver(1);
  TestGroup group(c.grid, &driver, Transfers::kDeferred);
  const auto requests = RequestsOf(c, under_test.name, /*key=*/1);
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
                         testing::ValuesIn(ClaimsOnGrids(
                             /*min_ranks=*/2,
                             [](CollectiveType type) {
                               return type == CollectiveType::kBarrier;
                             })),
                         NameWithoutLength);

// Runs what members have prepared: as what they call, to the same ends.

class PreparedSuite : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PreparedSuite);

TEST_P(PreparedSuite, StartsHaveTheResultsOfCalls) {
  ForEachSample(
      GetParam(), [&](const Rehearsal& rehearsal, const Setting& setting) {
        TestGroup group(rehearsal.what().grid, setting.driver.get(),
                        setting.transfers);
        for (int i = 0; i < 3; ++i) {
          ASSERT_EQ(rehearsal.Succeeds(group, {.is_prepared = true}), "");
          ASSERT_EQ(rehearsal.Succeeds(group), "");
        }
      });
}

// Preparing transfers nothing.
TEST_P(PreparedSuite, ATransferThatFailsEndsTheStartOnAllMembers) {
  ForEachSample(GetParam(), [&](const Rehearsal& rehearsal,
                                const Setting& setting) {
    const Grid grid = rehearsal.what().grid;
    for (int64_t failing = 1;; failing *= 2) {
      TestGroup group(grid, setting.driver.get(), setting.transfers, failing);
      CaseExecution execution = rehearsal.Prepare();
      execution.CallAll(group, {.is_prepared = true});
      group.driver().RunAll();
      if (execution.num_failed() == 0) {
        EXPECT_EQ(execution.CheckSuccess(), "");
        return;
      }
      ASSERT_EQ(execution.CheckFailure(absl::UnavailableError(
                    absl::StrCat("transfer ", failing, " was made to fail"))),
                "");
    }
  });
}

// With the work of preparing and of running in any order.
TEST_P(PreparedSuite, AnAbortEndsPreparationsAndStarts) {
  const absl::Status reason = absl::AbortedError("the step was given up");
  ForEachSample(
      GetParam(), [&](const Rehearsal& rehearsal, const Setting& setting) {
        TestGroup group(rehearsal.what().grid, setting.driver.get(),
                        setting.transfers);
        CaseExecution execution = rehearsal.Prepare();
        execution.CallAll(group, {.is_prepared = true});
        group.driver().environment().queue->Schedule(
            [step = group.step(1), reason] { step->StartAbort(reason); });
        group.driver().RunAll();
        EXPECT_EQ(execution.CheckEnds(reason), "");
        CaseExecution later = rehearsal.Prepare();
        later.CallAll(group, {.is_prepared = true});
        group.driver().RunAll();
        EXPECT_EQ(later.CheckFailure(reason), "");
      });
}

INSTANTIATE_TEST_SUITE_P(All, PreparedSuite,
                         testing::ValuesIn(ClaimsOnGrids(/*min_ranks=*/1)),
                         NameWithoutLength);

// An instance that depends on another one waits until that has been launched.

// Two instances that have run once: `second_` depends on `first_`, of which it
// waits for one more execution now.
class DependencyTest : public testing::TestWithParam<Claim> {
 protected:
  void SetUp() override {
    const auto& [under_test, type, grid, length] = GetParam();
    Case c = SampleCases(*under_test, type, grid).front();
    const auto first = Rehearsal::Create(*under_test, c, /*key=*/1);
    ASSERT_TRUE(first.ok()) << first.status();
    c.dependencies = {1};
    const auto second = Rehearsal::Create(*under_test, c, /*key=*/2);
    ASSERT_TRUE(second.ok()) << second.status();
    ASSERT_EQ(first->Succeeds(group_), "");
    ASSERT_EQ(second->Succeeds(group_), "");
    first_.emplace(first->Prepare());
    second_.emplace(second->Prepare());
    const int64_t num_transfers = group_.num_transfers();
    second_->CallAll(group_);
    driver_.RunAll();
    ASSERT_EQ(second_->num_ended(), 0);
    ASSERT_EQ(group_.num_transfers(), num_transfers);
  }

  int num_ranks() const { return GetParam().grid.size(); }

  SeededDriver driver_{1};
  TestGroup group_{GetParam().grid, &driver_, Transfers::kDeferred};
  std::optional<CaseExecution> first_;
  std::optional<CaseExecution> second_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DependencyTest);

TEST_P(DependencyTest, WaitsUntilAllMembersLaunchedTheDependency) {
  for (int rank = 0; rank < num_ranks(); ++rank) {
    EXPECT_EQ(second_->num_ended(), 0) << "before rank " << rank;
    first_->Call(group_, rank);
    driver_.RunAll();
  }
  EXPECT_EQ(first_->CheckSuccess(), "");
  EXPECT_EQ(second_->CheckSuccess(), "");
}

TEST_P(DependencyTest, AbortWakesWhoWaits) {
  const absl::Status reason = absl::AbortedError("the step was given up");
  group_.step(1)->StartAbort(reason);
  driver_.RunAll();
  EXPECT_EQ(second_->CheckFailure(reason), "");
  EXPECT_EQ(second_->num_failed(), num_ranks());
}

INSTANTIATE_TEST_SUITE_P(All, DependencyTest,
                         testing::ValuesIn(ClaimsOnGrids(/*min_ranks=*/2)),
                         NameWithoutLength);

// Runs the implementation again and again, each time in another order of work,
// by other numbers of threads, and on every layout where its class of
// determinism promises that this makes no difference: the outputs have the same
// bits each time. Unlike in the other suites, nothing says which bits: sums are
// rounded, so that they tell any difference in the order of summation.

constexpr int kNumbersOfThreads[] = {1, 2, 5};

struct Repetitions {
  uint64_t seeds;  // Orders of work.
  int on_threads;  // With each number of threads, in any order of work.
};
constexpr Repetitions kMany = {.seeds = 100, .on_threads = 5};
constexpr Repetitions kFew = {.seeds = 10, .on_threads = 2};

// The second is cut into pieces that are reduced on their own.
constexpr int64_t kLengths[] = {1001, 40'009};

Tensor TensorOf(const Case& c, const Bytes& bytes) {
  const auto num_elements =
      static_cast<int64_t>(bytes.size() / SizeOf(c.dtype));
  Tensor tensor = *Tensor::Allocate(c.dtype, ShapeOf(c, num_elements));
  std::copy(bytes.begin(), bytes.end(), tensor.mutable_data());
  return tensor;
}

// In rank order; unset where a rank has none.
std::vector<Tensor> MakeInputTensors(const Case& c) {
  std::vector<Tensor> inputs(c.grid.size());
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    if (!HasInput(c.type, rank, c.root)) continue;
    inputs[rank] = TensorOf(
        c, RandomElements(c.dtype, InputElements(c, rank), Rounding::kAny,
                          /*seed=*/static_cast<uint64_t>(rank) + 1));
  }
  return inputs;
}

// A case, and which devices its ranks have; others are in no group.
struct Placed {
  const ImplementationUnderTest* under_test;
  Case c;
  Grid devices;
  std::vector<int> device_of;  // By rank: in the order of tasks.
};

Placed AsItSays(const ImplementationUnderTest& under_test, const Case& c) {
  Placed placed = {.under_test = &under_test, .c = c, .devices = c.grid};
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    placed.device_of.push_back(DeviceIndex(c, rank));
  }
  return placed;
}

// The last ranks have a task each, the first one has all others.
Placed Unevenly(const ImplementationUnderTest& under_test, const Case& c,
                int tasks) {
  const int size = c.grid.size();
  Placed placed = {.under_test = &under_test, .c = c, .devices = {tasks, size}};
  for (int rank = 0; rank < size; ++rank) {
    const int task = std::max(0, rank - (size - tasks));
    placed.device_of.push_back(task == 0 ? rank : task * size);
  }
  return placed;
}

std::string ToString(const Placed& placed) {
  return absl::StrCat(ToString(placed.c), ", on devices ",
                      absl::StrJoin(placed.device_of, ","), " of ",
                      ToString(placed.devices));
}

// Runs one execution and returns the outputs in rank order.
std::vector<Tensor> Outputs(const Placed& placed,
                            const std::vector<Tensor>& inputs,
                            WorkDriver& driver) {
  const Case& c = placed.c;
  const int size = c.grid.size();
  TestGroup group(placed.devices, &driver, Transfers::kDeferred);
  const auto requests = RequestsOf(c, placed.under_test->name, /*key=*/1);
  std::vector<Tensor> outputs(size);
  std::vector<std::optional<absl::Status>> statuses(size);
  for (int rank = 0; rank < size; ++rank) {
    CollectiveArgs args{.device = group.device(placed.device_of[rank]),
                        .request = requests[rank],
                        .input = inputs[rank]};
    if (HasOutput(c.type, rank, c.root)) args.output = &outputs[rank];
    driver.environment().queue->Schedule(
        [&, rank, args = std::move(args)]() mutable {
          group.step(1)->ExecuteAsync(std::move(args),
                                      [&statuses, rank](absl::Status status) {
                                        statuses[rank] = std::move(status);
                                      });
        });
  }
  driver.RunAll();
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(statuses[rank].has_value()) << "rank " << rank << " hangs";
    if (statuses[rank].has_value()) {
      EXPECT_THAT(*statuses[rank], IsOk()) << "rank " << rank;
    }
  }
  return outputs;
}

// Text, empty if all bits are the same.
std::string Difference(const std::vector<Tensor>& a,
                       const std::vector<Tensor>& b) {
  for (size_t rank = 0; rank < a.size(); ++rank) {
    if (a[rank].size_bytes() != b[rank].size_bytes()) {
      return absl::StrCat("rank ", rank, " has outputs of different sizes");
    }
    const std::byte* const begin = a[rank].data();
    const std::byte* const end = begin + a[rank].size_bytes();
    const auto [at, other] = std::mismatch(begin, end, b[rank].data());
    if (at == end) continue;
    return absl::StrCat("output of rank ", rank, " differs at byte ",
                        at - begin);
  }
  return "";
}

// The case on layouts of its group on which the bits are to be the same.
std::vector<Placed> SameBitsOn(const ImplementationUnderTest& under_test,
                               Case c) {
  if (under_test.traits().determinism != Determinism::kByRankOrder) {
    return {AsItSays(under_test, c)};
  }
  const int size = c.grid.size();
  std::vector<Placed> placed;
  for (int tasks = 1; tasks <= size; ++tasks) {
    if (size % tasks != 0) continue;
    c.grid = {tasks, size / tasks};
    placed.push_back(AsItSays(under_test, c));
    if (tasks == 1 || tasks == size) continue;
    placed.push_back(Unevenly(under_test, c, tasks));
    c.deals_ranks = true;
    placed.push_back(AsItSays(under_test, c));
    c.deals_ranks = false;
  }
  return placed;
}

Repetitions RepetitionsOf(const Claim& claim) {
  const bool is_deep = claim.under_test->tier == Tier::kDeep;
  return is_deep || claim.length == kLengths[0] ? kMany : kFew;
}

void ExpectSameBits(const Claim& claim, const Case& first) {
  const ImplementationUnderTest& under_test = *claim.under_test;
  const Repetitions repetitions = RepetitionsOf(claim);
  const std::vector<Tensor> inputs = MakeInputTensors(first);
  SeededDriver first_driver(/*seed=*/0);
  const std::vector<Tensor> outputs =
      Outputs(AsItSays(under_test, first), inputs, first_driver);
  const auto compare = [&](const Placed& placed, WorkDriver& driver) {
    ASSERT_EQ(Difference(outputs, Outputs(placed, inputs, driver)), "")
        << "between " << ToString(first) << ", " << first_driver.ToString()
        << ", and " << ToString(placed) << ", " << driver.ToString()
        << ", with determinism " << Name(under_test.traits().determinism);
  };
  for (const Placed& placed : SameBitsOn(under_test, first)) {
    for (uint64_t seed = 1; seed <= repetitions.seeds; ++seed) {
      SeededDriver driver(seed);
      compare(placed, driver);
      if (testing::Test::HasFailure()) return;
    }
    for (const int num_threads : kNumbersOfThreads) {
      for (int run = 0; run < repetitions.on_threads; ++run) {
        const auto driver = OnThreads(num_threads);
        compare(placed, *driver);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

class DeterminismTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeterminismTest);

TEST_P(DeterminismTest, TheBitsAreTheSameWheneverTheClassPromisesIt) {
  const auto& [under_test, type, grid, length] = GetParam();
  Case c{.type = type, .grid = grid, .length = length};
  c.root = HasRoot(type) ? grid.size() - 1 : 0;
  if (HasBlocks(type)) c.length = length / grid.size();
  if (type == CollectiveType::kPermute) {
    c.permutation.resize(grid.size());
    std::iota(c.permutation.rbegin(), c.permutation.rend(), 0);
  }
  for (const DType dtype : {DType::kFloat64, DType::kBFloat16}) {
    c.dtype = dtype;
    ExpectSameBits(GetParam(), c);
  }
}

void AppendClaims(const ImplementationUnderTest& under_test,
                  std::vector<Claim>* claims) {
  const ImplementationTraits& traits = under_test.traits();
  if (traits.determinism == Determinism::kNotGuaranteed) return;
  for (const CollectiveType type : traits.collectives) {
    if (type == CollectiveType::kBarrier) continue;
    claims->push_back({&under_test, type, {2, 3}, kLengths[0]});
    if (under_test.tier == Tier::kQuick) continue;
    claims->push_back({&under_test, type, {4, 2}, kLengths[1]});
    if (under_test.tier == Tier::kDefault) continue;
    claims->push_back({&under_test, type, {2, 4}, kLengths[0]});
  }
}

std::vector<Claim> Claims() {
  std::vector<Claim> claims;
  for (const ImplementationUnderTest& under_test : UnderTest()) {
    if (under_test.is_run) AppendClaims(under_test, &claims);
  }
  return claims;
}

INSTANTIATE_TEST_SUITE_P(All, DeterminismTest, testing::ValuesIn(Claims()),
                         NameWithLength);

}  // namespace
}  // namespace tutti::conformance
