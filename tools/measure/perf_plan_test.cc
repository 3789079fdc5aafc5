#include "tools/measure/perf_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/named_only.h"

namespace tutti {
namespace perf_plan_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PerfOptions Of(const std::string& collective) {
  PerfOptions options;
  options.collective.collective = collective;
  return options;
}

class PerfPlanTest : public ::testing::Test {
 protected:
  PerfPlanTest() {
    for (const char* name : {"Rings", "Trees"}) {
      EXPECT_THAT(registry_.Register(
                      name, std::make_shared<NamedOnly>(ImplementationTraits{
                                .collectives = {CollectiveType::kAllReduce}})),
                  IsOk());
    }
  }

  PerfPlan Plan(const PerfOptions& options) {
    const auto plan = PlanPerf(options, registry_);
    EXPECT_THAT(plan, IsOk());
    return plan.ok() ? *plan : PerfPlan();
  }

  std::string UsageErrorOf(const PerfOptions& options) {
    const auto plan = PlanPerf(options, registry_);
    EXPECT_EQ(ExitStatus(plan.status()), 2) << plan.status();
    return std::string(plan.status().message());
  }

  static std::vector<int64_t> Counts(const PerfPlan& plan) {
    std::vector<int64_t> counts;
    for (const Workload& workload : plan.workloads) {
      counts.push_back(workload.count);
    }
    return counts;
  }

  CollectiveRegistry registry_;
};

TEST_F(PerfPlanTest, SweepsTheSizes) {
  PerfOptions options = Of("all_reduce");
  options.sweep.max_bytes = "1K";
  EXPECT_THAT(Counts(Plan(options)), ElementsAre(1, 4, 16, 64, 256));
}

TEST_F(PerfPlanTest, OneSizeMayBeMeasuredAlone) {
  PerfOptions options = Of("all_reduce");
  options.sweep.bytes = "1M";
  EXPECT_THAT(Counts(Plan(options)), ElementsAre(262144));
}

TEST_F(PerfPlanTest, SizesThatComeToTheSameAreMeasuredOnce) {
  PerfOptions options = Of("all_gather");
  options.sweep.max_bytes = "256";
  EXPECT_THAT(Counts(Plan(options)), ElementsAre(8, 16, 64));
}

TEST_F(PerfPlanTest, ABarrierIsMeasuredOnce) {
  EXPECT_THAT(Counts(Plan(Of("barrier"))), ElementsAre(0));
}

TEST_F(PerfPlanTest, TheLibraryChoosesByDefault) {
  const PerfPlan plan = Plan(Of("all_reduce"));
  EXPECT_THAT(plan.algorithms, ElementsAre(""));
  EXPECT_FALSE(plan.may_skip);
}

TEST_F(PerfPlanTest, NamedAlgorithmsMustServe) {
  PerfOptions options = Of("all_reduce");
  options.algorithms = {"Trees", "Rings"};
  const PerfPlan plan = Plan(options);
  EXPECT_THAT(plan.algorithms, ElementsAre("Trees", "Rings"));
  EXPECT_FALSE(plan.may_skip);
  options.algorithms = {"Trees", "all"};
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("all stands alone"));
  options.algorithms = {"Trees", "Stars"};
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("Stars"));
  options = Of("gather");
  options.algorithms = {"Trees"};
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("Trees does not do gather"));
}

TEST_F(PerfPlanTest, AllIsEveryAlgorithmOfTheCollective) {
  PerfOptions options = Of("all_reduce");
  options.algorithms = {"all"};
  const PerfPlan plan = Plan(options);
  EXPECT_THAT(plan.algorithms, ElementsAre("Rings", "Trees"));
  EXPECT_TRUE(plan.may_skip);
  options.collective.collective = "gather";
  EXPECT_EQ(PlanPerf(options, registry_).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PerfPlanTest, APermuteGoesToTheNextRankByDefault) {
  PerfOptions options = Of("permute");
  options.devices = 3;
  EXPECT_THAT(Plan(options).workloads[0].spec.permutation,
              ElementsAre(1, 2, 0));
}

TEST_F(PerfPlanTest, WrongOptionsAreAWrongCommandLine) {
  PerfOptions options = Of("all_reduce");
  options.sweep.dtype = "float8";
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("float8"));
  options = Of("all_reduce");
  options.sweep.dtype = "bool";
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("bool"));
  options = Of("all_reduce");
  options.sweep.min_bytes = "2M";
  options.sweep.max_bytes = "1M";
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("--min-bytes 2M"));
  options.sweep.min_bytes = "0";
  EXPECT_THAT(UsageErrorOf(options),
              HasSubstr("--min-bytes 0: wanted at least 1 byte"));
  options.sweep.max_bytes = "1048577G";
  options.sweep.min_bytes = "4";
  EXPECT_THAT(UsageErrorOf(options),
              HasSubstr("--max-bytes 1048577G: wanted at most 1048576G"));
  options.sweep.min_bytes = "4X";
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("--min-bytes"));
  options.sweep.bytes = "0";
  EXPECT_THAT(UsageErrorOf(options),
              HasSubstr("--bytes 0: wanted at least 1 byte"));
  options = Of("all_reduce");
  options.tasks = 3;
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("--tasks 3"));
  options = Of("all_reduce");
  options.devices = kMaxGroupSize + 1;
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("at most 65536"));
  options = Of("reduce");
  options.collective.root = 8;
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("--root 8"));
  options = Of("all_reduce");
  options.choice.rank_list = {0, 8};
  EXPECT_THAT(UsageErrorOf(options), HasSubstr("--rank-list: [0,8]"));
}

}  // namespace perf_plan_test
}  // namespace tutti
