// `tutti tune` among none but wrong algorithms.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "framework/default_environment.h"
#include "framework/registry.h"
#include "tests/status_matchers.h"
#include "tools/tune_command.h"
#include "tools/wrong_algorithms.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(FirstRefuser, RefusingAllReduce());
REGISTER_COLLECTIVE(Refuser, RefusingAllReduce());

TEST(TuneRefusalsTest, WhereAllRefuseTheLastRefusalIsTheError) {
  TuneOptions options;
  options.collectives = {"all_reduce"};
  options.layouts = {"1x2"};
  options.output = testing::TempDir() + "/tuned.json";
  const DefaultEnvironment environment(2);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_THAT(TuneRules(options, environment.get(),
                        LocalParty(environment.get()), {out, err}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::ContainsRegex("^all_reduce sum of 4 bytes on "
                                              "1x2, Refuser: .*not today")));
  EXPECT_EQ(out.str(), "");
  EXPECT_FALSE(std::filesystem::exists(options.output));
}

TEST(TuneRefusalsTest, WhatNobodyDoesIsAnError) {
  TuneOptions options;
  options.collectives = {"barrier"};
  options.layouts = {"1x2"};
  options.output = testing::TempDir() + "/tuned.json";
  const DefaultEnvironment environment(2);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_THAT(TuneRules(options, environment.get(),
                        LocalParty(environment.get()), {out, err}),
              StatusIs(absl::StatusCode::kNotFound,
                       testing::HasSubstr("no algorithm can serve")));
}

}  // namespace
}  // namespace tutti
