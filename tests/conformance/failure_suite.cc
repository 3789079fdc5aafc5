// Makes things go wrong half-way: every call has to end, once, with the right
// result or with the first error, and what comes after is not disturbed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/case_execution.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/custom_ops.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/suite_params.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/work_driver.h"
#include "tests/status_matchers.h"

namespace tutti::conformance {
namespace {

using ::testing::HasSubstr;

// A case that can be run again and again.
class Rehearsal {
 public:
  explicit Rehearsal(const Case& c)
      : case_(c),
        expected_(*Expectation::Create(UnderTest(), c,
                                       MakeInputs(UnderTest(), c, 1))) {}

  const Case& what() const { return case_; }

  CaseExecution Prepare() const {
    return CaseExecution(case_, RequestsOf(case_, UnderTest().name, /*key=*/1),
                         expected_);
  }

  // Runs it to the end. Text, empty if all is well.
  std::string Succeeds(TestGroup& group,
                       const CallOptions& options = {}) const {
    CaseExecution execution = Prepare();
    execution.CallAll(group, options);
    group.driver().RunAll();
    return execution.CheckSuccess();
  }

 private:
  Case case_;
  std::shared_ptr<const Expectation> expected_;
};

// Calls `test` for every sample and every way of driving the work, until it
// fails.
void ForEachSample(
    const TypeOnGrid& param,
    const std::function<void(const Rehearsal&, WorkDriver*)>& test) {
  constexpr uint64_t kSeeds = 5;
  constexpr int kThreads = 3;
  for (const Case& c : SampleCases(UnderTest(), param.type, param.grid)) {
    std::vector<std::unique_ptr<WorkDriver>> drivers;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      drivers.push_back(std::make_unique<SeededDriver>(seed));
    }
    drivers.push_back(OnThreads(kThreads));
    const Rehearsal rehearsal(c);
    for (const auto& driver : drivers) {
      SCOPED_TRACE(absl::StrCat(ToString(c), ", ", driver->ToString()));
      test(rehearsal, driver.get());
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

class FailureTest : public testing::TestWithParam<TypeOnGrid> {};

// ---- A transfer fails ----

// 1, 2, 7, 11 and the last one.
std::set<int64_t> TransfersToFail(const Rehearsal& rehearsal) {
  SeededDriver driver(1);
  TestGroup group(rehearsal.what().grid, &driver, Transfers::kDeferred);
  EXPECT_EQ(rehearsal.Succeeds(group), "");
  const int64_t last = group.num_transfers();
  std::set<int64_t> transfers = {1, 2, 7, 11, last};
  transfers.erase(transfers.upper_bound(last), transfers.end());
  transfers.erase(0);
  return transfers;
}

TEST_P(FailureTest, AFailedTransferEndsTheExecutionAndNothingElse) {
  ForEachSample(GetParam(), [](const Rehearsal& rehearsal, WorkDriver* driver) {
    for (const int64_t n : TransfersToFail(rehearsal)) {
      TestGroup group(rehearsal.what().grid, driver, Transfers::kDeferred, n);
      CaseExecution execution = rehearsal.Prepare();
      execution.CallAll(group);
      driver->RunAll();
      const auto error = absl::UnavailableError(
          absl::StrCat("transfer ", n, " was made to fail"));
      ASSERT_EQ(execution.CheckFailure(error), "") << n;
      ASSERT_EQ(rehearsal.Succeeds(group), "") << n;
    }
  });
}

// ---- A step is aborted, or an op cancelled, at any point ----

// Runs `work` after some other work had its turn.
void ScheduleLate(WorkQueue* queue, int turns, Work work) {
  queue->Schedule([queue, turns, work = std::move(work)]() mutable {
    if (turns == 0) return std::move(work)();
    ScheduleLate(queue, turns - 1, std::move(work));
  });
}

constexpr int kTurns[] = {0, 3, 10, 30};

TEST_P(FailureTest, AnAbortEndsTheStepAndNothingElse) {
  const absl::Status reason = absl::AbortedError("the step was given up");
  int num_failed = 0;
  ForEachSample(
      GetParam(), [&](const Rehearsal& rehearsal, WorkDriver* driver) {
        for (const int turns : kTurns) {
          TestGroup group(rehearsal.what().grid, driver, Transfers::kDeferred);
          CaseExecution execution = rehearsal.Prepare();
          execution.CallAll(group);
          ScheduleLate(
              driver->environment().queue, turns,
              [step = group.step(1), reason] { step->StartAbort(reason); });
          driver->RunAll();
          ASSERT_EQ(execution.CheckEnds(reason), "") << turns << " turns";
          num_failed += execution.num_failed();
          CaseExecution later = rehearsal.Prepare();
          later.CallAll(group);
          driver->RunAll();
          ASSERT_EQ(later.CheckFailure(reason), "");
          ASSERT_EQ(later.num_failed(), rehearsal.what().grid.size());
          ASSERT_EQ(rehearsal.Succeeds(group, {.step_id = 2}), "");
        }
      });
  EXPECT_GT(num_failed, 0) << "all aborts came too late";
}

TEST_P(FailureTest, ACancellationEndsTheExecutionAndNothingElse) {
  const absl::Status reason = absl::CancelledError("rank 0 wants no result");
  int num_failed = 0;
  ForEachSample(GetParam(), [&](const Rehearsal& rehearsal,
                                WorkDriver* driver) {
    for (const int turns : kTurns) {
      TestGroup group(rehearsal.what().grid, driver, Transfers::kDeferred);
      const auto cancellation = std::make_shared<Cancellation>();
      CaseExecution execution = rehearsal.Prepare();
      execution.Call(group, 0, {.cancellation = cancellation});
      for (int rank = 1; rank < rehearsal.what().grid.size(); ++rank) {
        execution.Call(group, rank);
      }
      ScheduleLate(driver->environment().queue, turns,
                   [cancellation, reason] { cancellation->Cancel(reason); });
      driver->RunAll();
      ASSERT_EQ(execution.CheckEnds(reason), "") << turns << " turns";
      num_failed += execution.num_failed();
      ASSERT_EQ(rehearsal.Succeeds(group), "");
    }
  });
  EXPECT_GT(num_failed, 0) << "all cancellations came too late";
}

// ---- A member is missing ----

// What the group has done before.
enum class Before { kNothing, kAnotherInstance, kThisInstance };

void BringTo(Before before, const Rehearsal& rehearsal, TestGroup& group) {
  if (before == Before::kNothing) return;
  if (before == Before::kThisInstance) {
    ASSERT_EQ(rehearsal.Succeeds(group), "");
    return;
  }
  const Case other{.type = rehearsal.what().type,
                   .grid = rehearsal.what().grid,
                   .length = 1,
                   .permutation = rehearsal.what().permutation};
  CaseExecution execution(
      other, RequestsOf(other, UnderTest().name, /*key=*/2),
      *Expectation::Create(UnderTest(), other,
                           MakeInputs(UnderTest(), other, 1)));
  execution.CallAll(group);
  group.driver().RunAll();
  ASSERT_EQ(execution.CheckSuccess(), "");
}

void MissOne(Before before, const Rehearsal& rehearsal, int missing) {
  SeededDriver driver(1);
  const int size = rehearsal.what().grid.size();
  TestGroup group(rehearsal.what().grid, &driver, Transfers::kDeferred);
  BringTo(before, rehearsal, group);
  CaseExecution execution = rehearsal.Prepare();
  const absl::Time deadline =
      driver.environment().clock->Now() + absl::Seconds(5);
  for (int rank = 0; rank < size; ++rank) {
    if (rank != missing) execution.Call(group, rank, {.deadline = deadline});
  }
  driver.Advance(absl::Seconds(10));
  ASSERT_EQ(execution.num_ended(), size - 1);
  execution.Call(group, missing);
  driver.RunAll();
  const absl::Status error = execution.status(missing);
  const std::string whom =
      before == Before::kNothing
          ? absl::StrCat(size - 1, " of ", size, " members had joined")
          : group.device(missing)->full_name();
  EXPECT_THAT(error,
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr(whom)));
  ASSERT_EQ(execution.CheckFailure(error), "");
  EXPECT_GT(execution.num_failed(), 1);
  ASSERT_EQ(rehearsal.Succeeds(group), "");
}

TEST_P(FailureTest, ADeadlineEndsTheWaitForAMissingMemberAndNamesIt) {
  const Grid grid = GetParam().grid;
  const Rehearsal rehearsal(
      SampleCases(UnderTest(), GetParam().type, grid).front());
  for (const Before before :
       {Before::kNothing, Before::kAnotherInstance, Before::kThisInstance}) {
    for (const int missing : {0, grid.size() / 2, grid.size() - 1}) {
      SCOPED_TRACE(absl::StrCat("rank ", missing, " is missing"));
      MissOne(before, rehearsal, missing);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(FailureTest, TheEndOfTheStepEndsTheWaitForAMissingMember) {
  SeededDriver driver(1);
  const Rehearsal rehearsal(
      SampleCases(UnderTest(), GetParam().type, GetParam().grid).front());
  TestGroup group(GetParam().grid, &driver, Transfers::kDeferred);
  CaseExecution execution = rehearsal.Prepare();
  const auto step = group.step(1);
  for (int rank = 1; rank < GetParam().grid.size(); ++rank) {
    execution.Call(group, rank);
  }
  driver.RunAll();
  EXPECT_EQ(execution.num_ended(), 0);
  group.EndStep(1);
  driver.RunAll();
  EXPECT_EQ(execution.num_failed(), GetParam().grid.size() - 1);
  EXPECT_THAT(execution.status(1),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("cleaned up")));
}

INSTANTIATE_TEST_SUITE_P(All, FailureTest,
                         testing::ValuesIn(TypesOnGrids(/*min_ranks=*/2)),
                         [](const auto& info) {
                           return NameOf(info.param, /*with_length=*/false);
                         });

// ---- A merge op fails ----

class MergeOpFailureTest : public testing::TestWithParam<TypeOnGrid> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MergeOpFailureTest);

MergeOp FailingMergeOp(int failing_call) {
  const auto num_calls = std::make_shared<std::atomic<int>>(0);
  const auto apply = [num_calls, failing_call, add = SaturatingAdd()](
                         DType dtype, const void* left, const void* right,
                         void* into, int64_t num_elements) {
    if (++*num_calls == failing_call) {
      return absl::DataLossError("the merge op failed");
    }
    return add.Apply(dtype, left, right, into, num_elements);
  };
  return *MergeOp::Custom(
      {.name = "failing", .commutative = true, .apply = apply});
}

TEST_P(MergeOpFailureTest, EndsTheExecutionWithItsError) {
  ForEachSample(GetParam(), [](const Rehearsal& sample, WorkDriver* driver) {
    Case c = sample.what();
    c.merge_op = SaturatingAdd();
    const auto expected =
        *Expectation::Create(UnderTest(), c, MakeInputs(UnderTest(), c, 1));
    // However it is done, each member's part takes a call but for one.
    for (const int failing_call : {1, c.grid.size() - 1}) {
      c.merge_op = FailingMergeOp(failing_call);
      TestGroup group(c.grid, driver, Transfers::kDeferred);
      CaseExecution execution(c, RequestsOf(c, UnderTest().name, /*key=*/1),
                              expected);
      execution.CallAll(group);
      driver->RunAll();
      ASSERT_EQ(
          execution.CheckFailure(absl::DataLossError("the merge op failed")),
          "");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, MergeOpFailureTest,
    testing::ValuesIn(TypesOnGrids(/*min_ranks=*/2, Reduces)),
    [](const auto& info) { return NameOf(info.param, /*with_length=*/false); });

}  // namespace
}  // namespace tutti::conformance
