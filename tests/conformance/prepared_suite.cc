// Runs what members have prepared: as what they call, to the same ends.

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/conformance/case_execution.h"
#include "tests/conformance/rehearsal.h"
#include "tests/conformance/suite_params.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/work_driver.h"

namespace tutti::conformance {
namespace {

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

}  // namespace
}  // namespace tutti::conformance
