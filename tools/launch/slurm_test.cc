#include "tools/launch/slurm.h"

#include <map>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace slurm_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Variables Of(std::map<std::string, std::string> values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

std::map<std::string, std::string> Step() {
  return {{"SLURM_STEP_NODELIST", "node[01-02],gpu5"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
          {"SLURM_NTASKS", "5"}};
}

MATCHER_P(IsUsageError, message, "") {
  *result_listener << arg.status();
  return ExitStatus(arg.status()) == 2 &&
         ::testing::Matches(message)(std::string(arg.status().message()));
}

TEST(SlurmTest, HostListsExpandTheirBrackets) {
  EXPECT_THAT(*ExpandHostList("node[01-03,7],gpu5"),
              ElementsAre("node01", "node02", "node03", "node7", "gpu5"));
  EXPECT_THAT(*ExpandHostList("login"), ElementsAre("login"));
  EXPECT_THAT(*ExpandHostList("n[8-11].local"),
              ElementsAre("n8.local", "n9.local", "n10.local", "n11.local"));
  EXPECT_THAT(*ExpandHostList("r[0-1]n[1-2]"),
              ElementsAre("r0n1", "r0n2", "r1n1", "r1n2"));
  EXPECT_THAT(*ExpandHostList("n[098-101]"),
              ElementsAre("n098", "n099", "n100", "n101"));
}

TEST(SlurmTest, WhatIsNoHostListIsQuoted) {
  for (const std::string list : {"",
                                 ",",
                                 "a,",
                                 ",a",
                                 "a[",
                                 "a]",
                                 "a[]",
                                 "a[1",
                                 "a[1-]",
                                 "a[-1]",
                                 "a[2-1]",
                                 "a[1-2-3]",
                                 "a[x]",
                                 "a[1,]",
                                 "a[1]]",
                                 "a[[1]]",
                                 "a[ 1]",
                                 "a[1-9999999999]",
                                 "a[0-65536]",
                                 "a[0-999]b[0-99]",
                                 "a[0-65535],b"}) {
    EXPECT_THAT(ExpandHostList(list),
                IsUsageError("\"" + list +
                             "\" is no list of up to 65536 hosts such as "
                             "node[01-03,7],gpu5"));
  }
}

TEST(SlurmTest, HostListsMayBeLong) {
  EXPECT_THAT(*ExpandHostList("a[0-65535]"), SizeIs(65536));
}

TEST(SlurmTest, TasksPerNodeExpand) {
  EXPECT_THAT(*ExpandTasksPerNode("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*ExpandTasksPerNode("16"), ElementsAre(16));
}

TEST(SlurmTest, WhatIsNoNumberOfTasksIsQuoted) {
  for (const std::string list :
       {"", "x", "0", "-1", "1,", "2(x)", "2(x0)", "2(x3", "2(x3)1", "2x3",
        "(x3)", "2(x-1)", "2(x65537)", "1(x65536),1", "9999999999"}) {
    EXPECT_THAT(ExpandTasksPerNode(list),
                IsUsageError("\"" + list +
                             "\" is no list of up to 65536 numbers of tasks "
                             "such as 2(x3),1"));
  }
}

TEST(SlurmTest, TasksFillOneNodeAfterTheOther) {
  EXPECT_THAT(*SlurmAddresses(Of(Step()), 7000),
              ElementsAre("node01:7000", "node01:7001", "node02:7000",
                          "node02:7001", "gpu5:7000"));
}

TEST(SlurmTest, AJobWithoutAStepHasVariablesToo) {
  EXPECT_THAT(
      *SlurmAddresses(
          Of({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_TASKS_PER_NODE", "2"}}), 1),
      ElementsAre("a:1", "a:2"));
}

TEST(SlurmTest, MissingVariablesAreNamed) {
  for (const char* name :
       {"SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"}) {
    auto step = Step();
    step.erase(name);
    EXPECT_THAT(SlurmAddresses(Of(step), 7000),
                IsUsageError(HasSubstr(std::string("wanted ") + name + " or")));
  }
}

TEST(SlurmTest, WrongVariablesAreNamed) {
  auto step = Step();
  step["SLURM_STEP_NODELIST"] = "a[";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              IsUsageError(HasSubstr("SLURM_STEP_NODELIST: \"a[\" is no")));
  step = Step();
  step["SLURM_STEP_TASKS_PER_NODE"] = "x";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              IsUsageError(HasSubstr("SLURM_STEP_TASKS_PER_NODE: \"x\" is")));
}

TEST(SlurmTest, VariablesThatContradictEachOtherAreQuoted) {
  auto step = Step();
  step["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
  EXPECT_THAT(
      SlurmAddresses(Of(step), 7000),
      IsUsageError("SLURM_STEP_NODELIST, \"node[01-02],gpu5\", has 3 nodes, "
                   "but SLURM_STEP_TASKS_PER_NODE, \"2(x2)\", has 2"));
  step = Step();
  step["SLURM_NTASKS"] = "4";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              IsUsageError("SLURM_STEP_TASKS_PER_NODE: \"2(x2),1\" makes 5 "
                           "tasks, but SLURM_NTASKS is 4: start the tasks "
                           "with srun"));
}

TEST(SlurmTest, TooManyTasksAreRefused) {
  auto step = Step();
  step["SLURM_STEP_TASKS_PER_NODE"] = "999999999(x3)";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              IsUsageError(HasSubstr("makes 2999999997 tasks, more than")));
}

TEST(SlurmTest, OtherOrdersOfTasksAreRefused) {
  auto step = Step();
  step["SLURM_DISTRIBUTION"] = "block:cyclic";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000), IsOk());
  step["SLURM_DISTRIBUTION"] = "cyclic";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              IsUsageError(HasSubstr("SLURM_DISTRIBUTION is \"cyclic\"")));
}

TEST(SlurmTest, PortsMustExist) {
  EXPECT_THAT(SlurmAddresses(Of(Step()), 65534), IsOk());
  EXPECT_THAT(SlurmAddresses(Of(Step()), 65535),
              IsUsageError(HasSubstr("port 65535 is too high: the 2 tasks of a "
                                     "node would need those up to 65536")));
}

}  // namespace slurm_test
}  // namespace tutti
