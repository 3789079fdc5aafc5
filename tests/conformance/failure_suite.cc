// Makes transfers and merge ops fail: every call has to end, once, with the
// right result or with that error, and what comes after is not disturbed.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/custom_ops.h"
#include "tests/conformance/pair_cover.h"
#include "tests/conformance/rehearsal.h"
#include "tests/conformance/suite_params.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/tested_implementation.h"
#include "tests/conformance/work_driver.h"

namespace tutti::conformance {
namespace {

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
    // However it is done, it takes a call for each member but one.
    for (const int failing_call : {1, sample.num_ranks() - 1}) {
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
