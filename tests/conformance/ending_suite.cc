// Ends executions from outside: by abort, cancellation, deadline, or the end of
// their step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/conformance/case.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/pair_cover.h"
#include "tests/conformance/rehearsal.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/tested_implementation.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"

namespace tutti::conformance {
namespace {

class EndingTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EndingTest);

// Runs `work` after other work has had so many turns.
void ScheduleLate(WorkQueue* queue, int turns, Work work) {
  queue->Schedule([queue, turns, work = std::move(work)]() mutable {
    if (turns == 0) return std::move(work)();
    ScheduleLate(queue, turns - 1, std::move(work));
  });
}

constexpr int kTurns[] = {0, 3, 10, 30};

// Returns how many calls the abort has ended.
int AbortOne(const Rehearsal& rehearsal, const Setting& setting, int turns) {
  const absl::Status reason = absl::AbortedError("the step was given up");
  TestGroup group(rehearsal.what().grid, setting.driver.get(),
                  setting.transfers);
  CaseExecution execution = rehearsal.Prepare();
  execution.CallAll(group);
  ScheduleLate(group.driver().environment().queue, turns,
               [step = group.step(1), reason] { step->StartAbort(reason); });
  group.driver().RunAll();
  EXPECT_EQ(execution.CheckEnds(reason), "");

  CaseExecution later = rehearsal.Prepare();
  later.CallAll(group);
  group.driver().RunAll();
  EXPECT_EQ(later.CheckFailure(reason), "");
  EXPECT_EQ(later.num_failed(), rehearsal.num_ranks());
  EXPECT_EQ(rehearsal.Succeeds(group, {.step_id = 2}), "");
  return execution.num_failed();
}

TEST_P(EndingTest, AnAbortEndsTheStepAndNothingElse) {
  int num_failed = 0;
  ForEachSample(GetParam(),
                [&](const Rehearsal& rehearsal, const Setting& setting) {
                  for (const int turns : kTurns) {
                    num_failed += AbortOne(rehearsal, setting, turns);
                    ASSERT_FALSE(HasFailure()) << "after " << turns << " turns";
                  }
                });
  EXPECT_GT(num_failed, 0) << "all aborts came too late";
}

// Returns how many calls the cancellation has ended.
int CancelOne(const Rehearsal& rehearsal, const Setting& setting, int turns) {
  const absl::Status reason = absl::CancelledError("rank 0 wants no result");
  TestGroup group(rehearsal.what().grid, setting.driver.get(),
                  setting.transfers);
  const auto cancellation = std::make_shared<Cancellation>();
  CaseExecution execution = rehearsal.Prepare();
  execution.Call(group, 0, {.cancellation = cancellation});
  for (int rank = 1; rank < rehearsal.num_ranks(); ++rank) {
    execution.Call(group, rank);
  }
  ScheduleLate(group.driver().environment().queue, turns,
               [cancellation, reason] { cancellation->Cancel(reason); });
  group.driver().RunAll();
  const Device& caller = *group.device(DeviceIndex(rehearsal.what(), 0));
  EXPECT_EQ(
      execution.CheckEnds(absl::CancelledError(absl::StrCat(
          reason.message(), " (", caller.full_name(), " cancelled its call)"))),
      "");
  EXPECT_EQ(rehearsal.Succeeds(group), "");
  return execution.num_failed();
}

TEST_P(EndingTest, ACancellationEndsTheExecutionAndNothingElse) {
  int num_failed = 0;
  ForEachSample(GetParam(),
                [&](const Rehearsal& rehearsal, const Setting& setting) {
                  for (const int turns : kTurns) {
                    num_failed += CancelOne(rehearsal, setting, turns);
                    ASSERT_FALSE(HasFailure()) << "after " << turns << " turns";
                  }
                });
  EXPECT_GT(num_failed, 0) << "all cancellations came too late";
}

// History of a group before the test.
enum class Before { kNothing, kAnotherInstance, kThisInstance };

std::string ToString(Before before) {
  switch (before) {
    case Before::kNothing:
      return "in a new group";
    case Before::kAnotherInstance:
      return "in a new instance";
    case Before::kThisInstance:
      return "in an instance that ran before";
  }
  return "";
}

// Text, empty if all is well.
std::string BringTo(Before before, const Rehearsal& rehearsal,
                    TestGroup& group) {
  if (before == Before::kNothing) return "";
  if (before == Before::kThisInstance) return rehearsal.Succeeds(group);
  const auto other = Rehearsal::Create(rehearsal.under_test(), rehearsal.what(),
                                       /*key=*/2);
  return other.ok() ? other->Succeeds(group) : other.status().ToString();
}

void MissOne(const Rehearsal& rehearsal, Before before, int missing) {
  const int size = rehearsal.num_ranks();
  SeededDriver driver(1);
  TestGroup group(rehearsal.what().grid, &driver, Transfers::kDeferred);
  ASSERT_EQ(BringTo(before, rehearsal, group), "");
  CaseExecution execution = rehearsal.Prepare();
  const absl::Time deadline =
      driver.environment().clock->Now() + absl::Seconds(5);
  for (int rank = 0; rank < size; ++rank) {
    if (rank != missing) execution.Call(group, rank, {.deadline = deadline});
  }
  driver.Advance(absl::Seconds(10));
  ASSERT_EQ(execution.num_ended(), size - 1);

  // A late member gets the same error.
  execution.Call(group, missing);
  driver.RunAll();
  const absl::Status error = execution.status(missing);
  const std::string whom =
      before == Before::kNothing
          ? absl::StrCat(size - 1, " of ", size, " members had joined")
          : group.device(missing)->full_name();
  EXPECT_THAT(error, IsDeadlineExceeded(whom));
  EXPECT_EQ(execution.CheckFailure(error), "");
  EXPECT_GT(execution.num_failed(), 1);
  EXPECT_EQ(rehearsal.Succeeds(group), "");
}

TEST_P(EndingTest, ADeadlineEndsTheWaitForAMissingMemberAndNamesIt) {
  const auto& [under_test, type, grid, length] = GetParam();
  const auto rehearsal = Rehearsal::Create(
      *under_test, SampleCases(*under_test, type, grid).front());
  ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
  for (const Before before :
       {Before::kNothing, Before::kAnotherInstance, Before::kThisInstance}) {
    for (const int missing : {0, grid.size() / 2, grid.size() - 1}) {
      SCOPED_TRACE(
          absl::StrCat("rank ", missing, " is missing ", ToString(before)));
      MissOne(*rehearsal, before, missing);
      if (HasFailure()) return;
    }
  }
}

TEST_P(EndingTest, TheEndOfTheStepEndsTheWaitForAMissingMember) {
  const auto& [under_test, type, grid, length] = GetParam();
  const auto rehearsal = Rehearsal::Create(
      *under_test, SampleCases(*under_test, type, grid).front());
  ASSERT_TRUE(rehearsal.ok()) << rehearsal.status();
  SeededDriver driver(1);
  TestGroup group(grid, &driver, Transfers::kDeferred);
  CaseExecution execution = rehearsal->Prepare();
  for (int rank = 1; rank < grid.size(); ++rank) execution.Call(group, rank);
  driver.RunAll();
  ASSERT_EQ(execution.num_ended(), 0);
  group.EndStep(1);
  driver.RunAll();
  EXPECT_EQ(execution.num_ended(), grid.size() - 1);
  EXPECT_EQ(execution.num_failed(), grid.size() - 1);
  EXPECT_THAT(execution.status(1), IsCancelled("cleaned up"));
}

INSTANTIATE_TEST_SUITE_P(All, EndingTest,
                         testing::ValuesIn(ClaimsOnGrids(/*min_ranks=*/2)),
                         NameWithoutLength);

// Makes transfers and merge ops fail: every call has to end, once, with the
// right result or with that error, and what comes after is not disturbed.

class TransferFailureTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransferFailureTest);

int64_t NumTransfers(const Rehearsal& rehearsal) {
  SeededDriver driver(1);
  TestGroup group(rehearsal.what().grid, &driver, Transfers::kDeferred);
  EXPECT_EQ(rehearsal.Succeeds(group), "");
  return group.num_transfers();
}

// The first twelve, one in the middle, and the last one.
std::set<int64_t> TransfersToFail(const Rehearsal& rehearsal) {
  constexpr int64_t kFirst = 12;
  const int64_t last = NumTransfers(rehearsal);
  std::set<int64_t> transfers;
  for (int64_t n = 1; n <= std::min(last, kFirst); ++n) transfers.insert(n);
  if (last > 0) transfers.insert({(last + 1) / 2, last});
  return transfers;
}

void FailTransfer(int64_t n, const Rehearsal& rehearsal, WorkDriver* driver,
                  Transfers transfers) {
  SCOPED_TRACE(absl::StrCat("transfer ", n));
  TestGroup group(rehearsal.what().grid, driver, transfers, n);
  CaseExecution execution = rehearsal.Prepare();
  execution.CallAll(group);
  driver->RunAll();
  ASSERT_EQ(execution.CheckFailure(absl::UnavailableError(
                absl::StrCat("transfer ", n, " was made to fail"))),
            "");
  ASSERT_EQ(rehearsal.Succeeds(group), "");
}

TEST_P(TransferFailureTest, EndsTheExecutionAndNothingElse) {
  if (GetParam().under_test->algorithm == nullptr)
    GTEST_SKIP() << "not a schedule";
  ForEachSample(
      GetParam(), [](const Rehearsal& rehearsal, const Setting& setting) {
        const std::set<int64_t> transfers = TransfersToFail(rehearsal);
        ASSERT_FALSE(transfers.empty()) << "nothing is sent";
        for (const int64_t n : transfers) {
          FailTransfer(n, rehearsal, setting.driver.get(), setting.transfers);
          if (HasFatalFailure()) return;
        }
      });
}

struct CountedRehearsal {
  Rehearsal rehearsal;
  int64_t num_transfers;
};

std::vector<CountedRehearsal> RehearseLengths(const Claim& claim) {
  std::vector<CountedRehearsal> rehearsals;
  for (const Case& c : LengthCases(*claim.under_test, claim.type, claim.grid)) {
    const auto rehearsal = Rehearsal::Create(*claim.under_test, c);
    EXPECT_TRUE(rehearsal.ok()) << ToString(c) << ": " << rehearsal.status();
    if (!rehearsal.ok()) continue;
    rehearsals.push_back({*rehearsal, NumTransfers(*rehearsal)});
  }
  return rehearsals;
}

// Each length with each setting and each of a few transfers, or in
// Tier::kDefault in pairs.
TEST_P(TransferFailureTest, EndsTheExecutionOfEveryLength) {
  const Tier tier = GetParam().under_test->tier;
  constexpr int64_t kLast = 0;
  const std::vector<int64_t> transfers = {1, 2, 7, 11, kLast};
  const auto rehearsals = RehearseLengths(GetParam());
  const auto settings = Settings(tier);
  const std::vector<int> sizes = {static_cast<int>(rehearsals.size()),
                                  static_cast<int>(settings.size()),
                                  static_cast<int>(transfers.size())};
  for (const auto& row :
       tier == Tier::kDefault ? PairCover(sizes) : AllRows(sizes)) {
    const auto& [rehearsal, num_transfers] = rehearsals[row[0]];
    const Setting& setting = settings[row[1]];
    const int64_t wanted = transfers[row[2]];
    const int64_t n = wanted == kLast ? num_transfers : wanted;
    if (n < 1 || n > num_transfers) continue;
    SCOPED_TRACE(
        absl::StrCat(ToString(rehearsal.what()), ", ", ToString(setting)));
    FailTransfer(n, rehearsal, setting.driver.get(), setting.transfers);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransferFailureTest,
                         testing::ValuesIn(ClaimsOnGrids(/*min_ranks=*/2)),
                         NameWithoutLength);

class MergeOpFailureTest : public testing::TestWithParam<Claim> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MergeOpFailureTest);

MergeOp FailingMergeOp(int failing_call) {
  const auto num_calls = std::make_shared<std::atomic<int>>(0);
  const auto apply = [num_calls, failing_call, add = SaturatingAdd()](
                         DType dtype, const void* left, const void* right,
                         void* into, int64_t num_elements) {
    if (++*num_calls == failing_call) {
      return absl::DataLossError("lost count");
    }
    return add.Apply(dtype, left, right, into, num_elements);
  };
  return *MergeOp::Custom(
      {.name = "failing", .commutative = true, .apply = apply});
}

TEST_P(MergeOpFailureTest, EndsTheExecution) {
  ForEachSample(GetParam(), [](const Rehearsal& sample,
                               const Setting& setting) {
    // However it is done, it takes a call for each input that the last rank
    // gets, but one.
    const int num_calls = NumMerged(sample.what(), sample.num_ranks() - 1) - 1;
    if (num_calls == 0) return;
    for (const int failing_call : {1, num_calls}) {
      SCOPED_TRACE(absl::StrCat("call ", failing_call));
      Case c = sample.what();
      c.merge_op = SaturatingAdd();
      const auto without_failure = Rehearsal::Create(sample.under_test(), c);
      ASSERT_TRUE(without_failure.ok()) << without_failure.status();
      c.merge_op = FailingMergeOp(failing_call);
      TestGroup group(c.grid, setting.driver.get(), setting.transfers);
      CaseExecution execution = without_failure->PrepareInstead(c);
      execution.CallAll(group);
      group.driver().RunAll();
      ASSERT_EQ(execution.CheckFailure(
                    absl::DataLossError("op failing failed: lost count")),
                "");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, MergeOpFailureTest,
                         testing::ValuesIn(ClaimsOnGrids(/*min_ranks=*/2,
                                                         Reduces)),
                         NameWithoutLength);

}  // namespace
}  // namespace tutti::conformance
