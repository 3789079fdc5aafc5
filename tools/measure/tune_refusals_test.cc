// `tutti tune` if all registered algorithms are wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "tests/doubles/status_matchers.h"
#include "tools/commands/tune_command.h"
#include "tools/request/wrong_algorithms.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {
namespace tune_refusals_test {

REGISTER_COLLECTIVE(FirstRefuser, RefusingAllReduce());
REGISTER_COLLECTIVE(Refuser, RefusingAllReduce());

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

}  // namespace tune_refusals_test
}  // namespace tutti
