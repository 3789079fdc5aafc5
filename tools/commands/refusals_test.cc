// `tutti perf --algorithm all` and `tutti tune` if all registered algorithms
// are wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/commands/collective_commands.h"
#include "tools/request/wrong_algorithms_testing.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {
namespace refusals_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

REGISTER_COLLECTIVE(FirstRefuser, RefusingAllReduce());
REGISTER_COLLECTIVE(Refuser, RefusingAllReduce());
REGISTER_COLLECTIVE(Fickle, FickleBroadcast());

class PerfRefusalsTest : public ::testing::Test {
 protected:
  absl::Status MeasureAll(const std::string& collective) {
    PerfOptions options;
    options.collective.collective = collective;
    options.devices = 2;
    options.sweep.max_bytes = "64";
    options.iterations = 2;
    options.algorithms = {"all"};
    options.json = json_;
    const DefaultEnvironment environment(2);
    return MeasureCollective(options, environment.get(), /*num_workers=*/2,
                             LocalParty(environment.get()), {out_, err_});
  }

  bool json_ = true;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(PerfRefusalsTest, WhereAllRefuseTheLastRefusalIsTheError) {
  EXPECT_THAT(MeasureAll("all_reduce"), ExitsWith(1, HasSubstr("not today")));
  EXPECT_THAT(err_.str(), HasSubstr("skipped Refuser"));
  EXPECT_EQ(nlohmann::json::parse(out_.str()).size(), 0u);
}

TEST_F(PerfRefusalsTest, WhereAllRefuseThereIsNoTable) {
  json_ = false;
  EXPECT_EQ(ExitStatus(MeasureAll("all_reduce")), 1);
  EXPECT_THAT(out_.str(), IsEmpty());
}

TEST_F(PerfRefusalsTest, AnAlgorithmThatServedOneSizeMayNotRefuseTheNext) {
  EXPECT_THAT(MeasureAll("broadcast"), ExitsWith(1, HasSubstr("too much")));
  EXPECT_THAT(err_.str(), IsEmpty());
  EXPECT_EQ(nlohmann::json::parse(out_.str()).size(), 1u);
}

class TuneRefusalsTest : public testing::Test {
 protected:
  absl::Status Tune(const std::string& collective) {
    TuneOptions options;
    options.collectives = {collective};
    options.layouts = {"1x2"};
    options.output = output_;
    const DefaultEnvironment environment(2);
    std::ostringstream err;
    return TuneRules(options, environment.get(), LocalParty(environment.get()),
                     {out_, err});
  }

  const std::string output_ = testing::TempDir() + "/tuned.json";
  std::ostringstream out_;
};

TEST_F(TuneRefusalsTest, WhereAllRefuseTheLastRefusalIsTheError) {
  EXPECT_THAT(Tune("all_reduce"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::ContainsRegex("^all_reduce sum of 4 bytes on "
                                              "1x2, Refuser: .*not today")));
  EXPECT_EQ(out_.str(), "");
  EXPECT_FALSE(std::filesystem::exists(output_));
}

TEST_F(TuneRefusalsTest, WhatNobodyDoesIsAnError) {
  EXPECT_THAT(Tune("barrier"),
              StatusIs(absl::StatusCode::kNotFound,
                       testing::HasSubstr("no algorithm can serve")));
}

}  // namespace refusals_test
}  // namespace tutti
