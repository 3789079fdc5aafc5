#include "tools/commands/verify_command.h"

#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/request/wrong_algorithms.h"
#include "tutti/schedule.h"

namespace tutti {
namespace verify_command_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class VerifyCommandTest : public ::testing::Test {
 protected:
  VerifyCommandTest() {
    const CollectiveRegistry& global = CollectiveRegistry::Global();
    EXPECT_THAT(registry_.Register("Rings", *global.Find("RingReduce")),
                IsOk());
    EXPECT_THAT(registry_.Register("Forgetful", ForgetfulAllReduce()), IsOk());
    EXPECT_THAT(registry_.Register("Refuser", RefusingAllReduce()), IsOk());
  }

  absl::Status Verify(bool err_is_terminal = false) {
    return VerifyAlgorithms(options_, registry_, {out_, err_, err_is_terminal});
  }

  CollectiveRegistry registry_;
  VerifyOptions options_ = {.max_ranks = 4};
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(VerifyCommandTest, WhatIsWrongFailsTheRunAndIsShown) {
  const absl::Status status = Verify();
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_EQ(status.message(), "1 of 3 algorithms failed");
  EXPECT_THAT(out_.str(), ContainsRegex("Forgetful +1\\.\\.4 .*FAILED\n  .*"));
  EXPECT_THAT(out_.str(), ContainsRegex("Rings +1\\.\\.4 +[0-9]+ +0  ok\n"));
}

TEST_F(VerifyCommandTest, WhatIsNoScheduleIsListedAsSuch) {
  options_.names = {"Refuser"};
  EXPECT_THAT(Verify(), IsOk());
  EXPECT_THAT(out_.str(), ContainsRegex("Refuser .*not a schedule\n"));
}

TEST_F(VerifyCommandTest, WhatStandsForCodeIsProvedWithANote) {
  EXPECT_THAT(
      registry_.Register("LocalThenRing",
                         *CollectiveRegistry::Global().Find("LocalThenRing")),
      IsOk());
  options_.names = {"LocalThenRing"};
  EXPECT_THAT(Verify(), IsOk());
  EXPECT_THAT(out_.str(),
              ContainsRegex("LocalThenRing +1\\.\\.4 +[0-9]+ +0  ok\n"
                            "  note: .* passes over memory .*\n"));
  out_.str("");
  options_.json = true;
  EXPECT_THAT(Verify(), IsOk());
  const auto rows = nlohmann::json::parse(out_.str());
  EXPECT_EQ(rows[0]["is_schedule"], false);
  EXPECT_EQ(rows[0]["failed"], 0);
  EXPECT_THAT(rows[0]["note"].get<std::string>(), HasSubstr("passes"));
}

TEST_F(VerifyCommandTest, WhatLacksAPartFailsWithTheReason) {
  EXPECT_THAT(registry_.Register("Halved", Hierarchical<"Nobody", "None">()),
              IsOk());
  EXPECT_THAT(
      registry_.Register("Passed", Hierarchical<"LocalReduce", "Nobody">()),
      IsOk());
  options_.names = {"Halved", "Rings", "Passed"};
  const absl::Status status = Verify();
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_EQ(status.message(), "2 of 3 algorithms failed");
  for (const char* name : {"Halved", "Passed"}) {
    EXPECT_THAT(out_.str(),
                ContainsRegex(absl::StrCat(name, " +- +1 +1  FAILED\n  .*",
                                           "named \"Nobody\"")));
  }
}

TEST_F(VerifyCommandTest, UnknownNamesAreAWrongCommandLine) {
  options_.names = {"Rings", "Stars"};
  const absl::Status status = Verify();
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Forgetful"));
  EXPECT_THAT(out_.str(), IsEmpty());
}

TEST_F(VerifyCommandTest, TheJsonHasTheSame) {
  options_.json = true;
  EXPECT_EQ(ExitStatus(Verify()), 1);
  const auto rows = nlohmann::json::parse(out_.str());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["name"], "Forgetful");
  EXPECT_GT(rows[0]["failed"], 0);
  EXPECT_TRUE(rows[0]["first_failure"].is_string());
  EXPECT_EQ(rows[1]["is_schedule"], false);
  EXPECT_FALSE(rows[1].contains("note"));
  EXPECT_TRUE(rows[2]["note"].is_null());
  EXPECT_EQ(rows[2]["failed"], 0);
  EXPECT_TRUE(rows[2]["first_failure"].is_null());
}

TEST_F(VerifyCommandTest, SizesThatWereLeftOutAreNotClaimed) {
  options_ = {.names = {"Forgetful"}, .max_ranks = 65};
  EXPECT_EQ(ExitStatus(Verify()), 1);
  EXPECT_THAT(out_.str(), ContainsRegex("Forgetful +1\\.\\.65 "));
  options_.max_ranks = 70;
  EXPECT_EQ(ExitStatus(Verify()), 1);
  EXPECT_THAT(out_.str(),
              ContainsRegex("Forgetful +1\\.\\.64 \\+ 2 up to 70 "));
}

TEST_F(VerifyCommandTest, ProgressGoesToATerminalAlone) {
  options_ = {.names = {"Rings"}, .max_ranks = 8};
  EXPECT_THAT(Verify(), IsOk());
  EXPECT_THAT(err_.str(), IsEmpty());
  EXPECT_THAT(Verify(/*err_is_terminal=*/true), IsOk());
  EXPECT_THAT(err_.str(), HasSubstr("\rverifying Rings (1 of 1): "));
}

TEST_F(VerifyCommandTest, ProgressSaysHowFarItIs) {
  EXPECT_EQ(ExitStatus(Verify(/*err_is_terminal=*/true)), 1);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("\rverifying Forgetful (1 of 3) ..."),
                                HasSubstr("\rverifying Rings (3 of 3) ...")));
}

TEST_F(VerifyCommandTest, StopsWhereNobodyReads) {
  out_.setstate(std::ios::badbit);
  EXPECT_THAT(Verify(/*err_is_terminal=*/true),
              StatusIs(absl::StatusCode::kDataLoss,
                       "standard output cannot be written"));
  EXPECT_THAT(err_.str(), Not(HasSubstr("(2 of 3)")));
}

}  // namespace verify_command_test
}  // namespace tutti
