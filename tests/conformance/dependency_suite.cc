// An instance that depends on another one waits until that has been launched.

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/rehearsal.h"
#include "tests/conformance/suite_params.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/work_driver.h"

namespace tutti::conformance {
namespace {

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

}  // namespace
}  // namespace tutti::conformance
