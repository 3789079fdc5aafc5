#include "tools/cluster/shared_command.h"

#include <gtest/gtest.h>

#include <vector>

#include "tools/base/option_values.h"
#include "tools/cluster/cluster_flags.h"
#include "tools/request/collective_options.h"

namespace tutti {
namespace shared_command_test {

class SharedCommandTest : public testing::Test {
 protected:
  SharedCommandTest() {
    AddCollectiveOptions(command_, &collective_);
    command_->add_option("--iterations", iterations_)
        ->transform(WholeNumber(1, 100));
    command_->add_option("--algorithm", algorithms_)
        ->delimiter(',')
        ->allow_extra_args(false);
    command_->add_flag("--check", check_);
    command_->add_flag("--json", json_);
    command_->add_option("--input", inputs_);
    command_->add_option("--output", output_);
    command_->add_option("--rules", rules_);
    AddClusterOptions(command_, &cluster_);
  }

  std::string Of(const std::string& line) {
    app_.parse(line);
    return SharedCommand(*command_);
  }

  CLI::App app_;
  CLI::App* const command_ = app_.add_subcommand("perf");
  CollectiveWords collective_;
  ClusterWords cluster_;
  int iterations_ = 0;
  std::vector<std::string> algorithms_;
  std::vector<std::string> inputs_;
  std::string output_;
  std::string rules_;
  bool check_ = false;
  bool json_ = false;
};

TEST_F(SharedCommandTest, HasTheNameAndTheCollective) {
  EXPECT_EQ(Of("perf barrier"), "perf barrier");
}

TEST_F(SharedCommandTest, TheOrderIsThatOfTheCommandNotOfTheLine) {
  const std::string wanted =
      "perf all_reduce --reduction max --iterations 5 --algorithm A,B --check";
  EXPECT_EQ(Of("perf --check --algorithm A,B --reduction max all_reduce "
               "--iterations 5"),
            wanted);
  EXPECT_EQ(Of("perf --iterations 5 all_reduce --algorithm A --algorithm B "
               "--reduction max --check"),
            wanted);
}

TEST_F(SharedCommandTest, NumbersAreWrittenOneWay) {
  EXPECT_EQ(Of("perf barrier --iterations 010"),
            "perf barrier --iterations 10");
}

TEST_F(SharedCommandTest, WhatTasksMayHaveOfTheirOwnIsLeftOut) {
  EXPECT_EQ(Of("perf barrier --cluster a:1,b:2 --task 1 --insecure "
               "--devices-per-task 2 --input a b --output c --rules d --json"),
            "perf barrier");
}

}  // namespace shared_command_test
}  // namespace tutti
