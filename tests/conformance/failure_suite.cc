// Makes transfers and merge ops fail: every call has to end, once, with the
// right result or with that error, and what comes after is not disturbed.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/custom_ops.h"
#include "tests/conformance/implementation_under_test.h"
#include "tests/conformance/rehearsal.h"
#include "tests/conformance/suite_params.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/work_driver.h"

namespace tutti::conformance {
namespace {

class TransferFailureTest : public testing::TestWithParam<TypeOnGrid> {};

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
  if (UnderTest().algorithm == nullptr) GTEST_SKIP() << "not a schedule";
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

// The first one, a few more, and the last one.
void FailAFewTransfers(const Rehearsal& rehearsal, const Setting& setting,
                       int64_t last) {
  for (const int64_t n : std::set<int64_t>{1, 2, 7, 11, last}) {
    if (n < 1 || n > last) continue;
    FailTransfer(n, rehearsal, setting.driver.get(), setting.transfers);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(TransferFailureTest, EndsTheExecutionOfEveryLength) {
  const auto& [type, grid, length] = GetParam();
  for (const Case& c : LengthCases(UnderTest(), type, grid)) {
    const auto rehearsal = Rehearsal::Create(c);
    ASSERT_TRUE(rehearsal.ok()) << ToString(c) << ": " << rehearsal.status();
    const int64_t last = NumTransfers(*rehearsal);
    for (const Setting& setting : Settings()) {
      SCOPED_TRACE(absl::StrCat(ToString(c), ", ", ToString(setting)));
      FailAFewTransfers(*rehearsal, setting, last);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransferFailureTest,
                         testing::ValuesIn(TypesOnGrids(/*min_ranks=*/2)),
                         NameWithoutLength);

class MergeOpFailureTest : public testing::TestWithParam<TypeOnGrid> {};
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
  ForEachSample(
      GetParam(), [](const Rehearsal& sample, const Setting& setting) {
        // However it is done, it takes a call for each member but one.
        for (const int failing_call : {1, sample.num_ranks() - 1}) {
          SCOPED_TRACE(absl::StrCat("call ", failing_call));
          Case c = sample.what();
          c.merge_op = SaturatingAdd();
          const auto without_failure = Rehearsal::Create(c);
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
                         testing::ValuesIn(TypesOnGrids(/*min_ranks=*/2,
                                                        Reduces)),
                         NameWithoutLength);

}  // namespace
}  // namespace tutti::conformance
