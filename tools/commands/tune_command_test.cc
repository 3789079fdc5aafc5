#include "tools/commands/tune_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <sstream>
#include <string>

#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/cluster/party.h"
#include "tools/request/wrong_algorithms.h"
#include "tutti/environment.h"
#include "tutti/selection.h"

namespace tutti {
namespace tune_command_test {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::Optional;

REGISTER_COLLECTIVE(Refuser, RefusingAllReduce());

class TuneCommandTest : public testing::Test {
 protected:
  TuneCommandTest() {
    options_.collectives = {"all_reduce", "barrier"};
    options_.layouts = {"1x2", "2x2"};
    options_.sweep.max_bytes = "32";
    options_.rounds = 1;
    options_.iterations = 1;
    options_.max_store_bytes = 1 << 20;
    options_.output = testing::TempDir() + "/tuned.json";
    std::filesystem::remove(options_.output);
  }

  absl::Status Tune() {
    const DefaultEnvironment environment(2);
    return TuneRules(options_, environment.get(), LocalParty(environment.get()),
                     {out_, err_});
  }

  // Expects a UsageError that contains `text`, and no output file.
  void ExpectUsageError(const std::string& text) {
    const absl::Status status = Tune();
    EXPECT_EQ(ExitStatus(status), 2) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(options_.output));
  }

  TuneOptions options_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(TuneCommandTest, WritesRulesForAllThatWasMeasured) {
  ASSERT_THAT(Tune(), IsOk());
  const auto rules =
      ReadRulesFile(options_.output, CollectiveRegistry::Global());
  ASSERT_THAT(rules, IsOk());
  for (const CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kBarrier}) {
    for (const std::string layout : {"1x2", "2x2"}) {
      int64_t next = 0;
      for (const SelectionRule& rule : (*rules)->rules) {
        if (rule.type != type || rule.layout != layout) continue;
        EXPECT_EQ(rule.one_process, true);
        EXPECT_EQ(rule.min_bytes, next);
        next = rule.max_bytes == std::numeric_limits<int64_t>::max()
                   ? -1
                   : rule.max_bytes + 1;
      }
      EXPECT_EQ(next, -1) << Name(type) << " on " << layout;
    }
  }
}

TEST_F(TuneCommandTest, PrintsTheScoresOfModelAndRules) {
  ASSERT_THAT(Tune(), IsOk());
  // Sizes of 4 and 32 bytes, and one barrier, on two layouts.
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("model: chosen algorithm within 10 % of the best "
                              "measured for "),
                    HasSubstr("rules: chosen algorithm within 10 % of the best "
                              "measured for "),
                    HasSubstr(" of 6 points")));
}

TEST_F(TuneCommandTest, WritesFromWhereResultsGoPastTheCaches) {
  ASSERT_THAT(Tune(), IsOk());
  const auto rules =
      ReadRulesFile(options_.output, CollectiveRegistry::Global());
  ASSERT_THAT(rules, IsOk());
  // Equals the one measured size, or twice it.
  EXPECT_THAT((*rules)->past_caches_from_bytes,
              AnyOf(Optional(1 << 20), Optional(2 << 20)));
  EXPECT_THAT(out_.str(),
              ContainsRegex("past the caches from [12]M bytes of inputs and"));
}

TEST_F(TuneCommandTest, WhatRefusesIsLeftOutWithALine) {
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_THAT(err_.str(), ContainsRegex("^tutti: skipped Refuser for "
                                        "all_reduce sum of 4 bytes on 1x2: "
                                        ".*not today"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("Refuser")));
}

TEST_F(TuneCommandTest, WhatIsGivenTwiceIsMeasuredOnce) {
  options_.layouts = {"1x2", "1x2"};
  options_.collectives = {"barrier", "barrier"};
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr(" of 1 points"));
}

TEST_F(TuneCommandTest, ALayoutInTwoSpellingsIsMeasuredOnce) {
  options_.layouts = {"2x1", "1+1", "2x01"};
  options_.collectives = {"barrier"};
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr(" of 1 points"));
}

TEST_F(TuneCommandTest, WrongOptionsAreErrorsBeforeAnythingIsMeasured) {
  options_.layouts = {"1x2", "3+1"};
  ExpectUsageError("--layout 3+1: wanted as many devices on each task");
  options_.layouts = {"8"};
  ExpectUsageError("\"8\" is no layout");
  options_.layouts = {"1x2"};
  options_.sweep.max_bytes = "2";
  ExpectUsageError("--min-bytes 4 is more than --max-bytes 2");
  options_.sweep.max_bytes = "32";
  options_.collectives = {"reduce_all"};
  ExpectUsageError("reduce_all");
}

TEST_F(TuneCommandTest, AFileThatCannotBeWrittenIsNamedBeforeAllMeasuring) {
  options_.collectives = {"barrier"};
  for (const std::string path : {"/dev/null/tuned.json", "/dev/null", "/tmp"}) {
    options_.output = path;
    const absl::Status status = Tune();
    EXPECT_EQ(ExitStatus(status), 1) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path.substr(0, 4)));
    EXPECT_EQ(out_.str(), "");  // No report.
  }
}

TEST_F(TuneCommandTest, ADeadlineEndsItAndNamesWhatWasMeasured) {
  options_.deadline_seconds = 1e-9;
  const absl::Status status = Tune();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(
      std::string(status.message()),
      ContainsRegex("^all_reduce sum of 4 bytes on 1x2, [A-Za-z]+: .*the "
                    "deadline passed after "));
  EXPECT_FALSE(std::filesystem::exists(options_.output));
  options_.deadline_seconds = 1e300;
  EXPECT_THAT(Tune(), IsOk());
}

TEST_F(TuneCommandTest, DirectoriesMadeForAFileAreThereOnceItIs) {
  options_.collectives = {"barrier"};
  const std::filesystem::path folder = testing::TempDir() + "/made_by_tune";
  std::filesystem::remove_all(folder);
  options_.output = folder / "rules.json";
  options_.layouts = {"1x2"};
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_TRUE(std::filesystem::exists(options_.output));
}

}  // namespace tune_command_test
}  // namespace tutti
