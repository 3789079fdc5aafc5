#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/cluster/party.h"
#include "tools/commands/collective_commands.h"
#include "tools/request/wrong_algorithms_testing.h"
#include "tutti/environment.h"
#include "tutti/selection.h"

namespace tutti {
namespace measuring_commands_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;

REGISTER_COLLECTIVE(Endless, EndlessBroadcast());
REGISTER_COLLECTIVE(Forgetful, ForgetfulAllReduce());
REGISTER_COLLECTIVE(Refuser, RefusingAllReduce());

class PerfCommandTest : public ::testing::Test {
 protected:
  PerfCommandTest() {
    options_.collective.collective = "all_reduce";
    options_.devices = 3;
    options_.sweep.max_bytes = "16";
    options_.iterations = 2;
    options_.json = true;
  }

  absl::Status Measure(bool err_is_terminal = false) {
    const DefaultEnvironment environment(2);
    return MeasureCollective(options_, environment.get(), /*num_workers=*/2,
                             LocalParty(environment.get()),
                             {out_, err_, err_is_terminal});
  }

  // Value of `key` in each printed row.
  std::vector<nlohmann::json> Printed(const std::string& key) const {
    std::vector<nlohmann::json> values;
    const auto rows = nlohmann::json::parse(out_.str());
    for (const auto& row : rows) values.push_back(row[key]);
    return values;
  }

  PerfOptions options_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(PerfCommandTest, EveryWrongElementOfEveryIterationCounts) {
  options_.algorithms = {"Forgetful"};
  options_.check = true;
  const absl::Status status = Measure();
  EXPECT_EQ(ExitStatus(status), 1);
  // Sizes of 1 and 4 elements, on 3 ranks, in 2 iterations.
  EXPECT_THAT(Printed("wrong"), ElementsAre(6, 24));
  EXPECT_EQ(status.message(), "30 elements were wrong");
}

TEST_F(PerfCommandTest, NobodyLooksWithoutCheck) {
  options_.algorithms = {"Forgetful"};
  EXPECT_THAT(Measure(), IsOk());
  EXPECT_THAT(Printed("wrong"), ElementsAre(nullptr, nullptr));
}

TEST_F(PerfCommandTest, AllLeavesOutWhatRefusesAndSaysSoOnce) {
  options_.algorithms = {"all"};
  EXPECT_THAT(Measure(), IsOk());
  EXPECT_THAT(
      Printed("algorithm"),
      ElementsAre(
          "DoubleTreeReduce", "Forgetful", "HierarchicalDoubleTreeReduce",
          "HierarchicalHalvingDoublingReduce", "HierarchicalRingReduce",
          "LocalReduce", "LocalThenDoubleTree", "LocalThenRecursiveDoubling",
          "LocalThenRecursiveHalvingDoubling", "LocalThenRing",
          "RecursiveDoublingReduce", "RecursiveHalvingDoublingReduce",
          "RingReduce", "ShuffleReduce", "ShuffleThenRecursiveHalvingDoubling",
          "ShuffleThenRing", "ShuffleThenShuffle", "TreeReduce",
          "DoubleTreeReduce", "Forgetful", "HierarchicalDoubleTreeReduce",
          "HierarchicalHalvingDoublingReduce", "HierarchicalRingReduce",
          "LocalReduce", "LocalThenDoubleTree", "LocalThenRecursiveDoubling",
          "LocalThenRecursiveHalvingDoubling", "LocalThenRing",
          "RecursiveDoublingReduce", "RecursiveHalvingDoublingReduce",
          "RingReduce", "ShuffleReduce", "ShuffleThenRecursiveHalvingDoubling",
          "ShuffleThenRing", "ShuffleThenShuffle", "TreeReduce"));
  EXPECT_THAT(err_.str(), HasSubstr("tutti: skipped Refuser: "));
  EXPECT_THAT(err_.str(), HasSubstr("not today"));
  EXPECT_EQ(err_.str().find('\n'), err_.str().size() - 1) << err_.str();
}

TEST_F(PerfCommandTest, ANamedOneThatRefusesEndsTheRunAndTheList) {
  options_.algorithms = {"RingReduce", "Refuser"};
  EXPECT_THAT(Measure(), ExitsWith(1, HasSubstr("not today")));
  EXPECT_THAT(Printed("algorithm"), ElementsAre("RingReduce"));
}

TEST_F(PerfCommandTest, ADeadlineEndsWhatCannotEndAndSaysWhoWaitsForWhom) {
  options_.collective.collective = "broadcast";
  options_.algorithms = {"Endless"};
  options_.sweep.max_bytes = "4";
  options_.deadline_seconds = 3;
  const absl::Status status = Measure();
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              ContainsRegex("^Endless with 4 bytes: .* who wait for .*"
                            "data of rank 1 for rank 0"));
  EXPECT_THAT(Printed("algorithm"), IsEmpty());
}

TEST_F(PerfCommandTest, ADeadlineIsThatOfEachIteration) {
  options_.deadline_seconds = 1e-9;
  EXPECT_EQ(Measure().code(), absl::StatusCode::kDeadlineExceeded);
  options_.deadline_seconds = 1e300;
  out_.str("");
  EXPECT_THAT(Measure(), IsOk());
}

TEST_F(PerfCommandTest, SharesAreByOneBandwidth) {
  options_.algorithms = {"Forgetful", "RingReduce", "TreeReduce"};
  options_.sweep.min_bytes = options_.sweep.max_bytes = "64K";
  EXPECT_THAT(Measure(), IsOk());
  const auto times = Printed("p50_us");
  const auto shares = Printed("limit_share");
  ASSERT_EQ(times.size(), 3u);
  for (size_t row = 0; row < times.size(); ++row) {
    EXPECT_NEAR(shares[row].get<double>() * times[row].get<double>() /
                    (shares[0].get<double>() * times[0].get<double>()),
                1, 1e-9);
  }
}

TEST_F(PerfCommandTest, TheLastLineSaysWhatTheLimitIs) {
  options_.json = false;
  EXPECT_THAT(Measure(), IsOk());
  EXPECT_THAT(out_.str(), ContainsRegex("\nlimit: 100 % is the fastest copy, "
                                        "[0-9]+\\.[0-9][0-9] GB/s [^\n]*\n$"));
}

TEST_F(PerfCommandTest, ProgressGoesToATerminalAlone) {
  EXPECT_THAT(Measure(/*err_is_terminal=*/true), IsOk());
  EXPECT_THAT(err_.str(), HasSubstr("\rmeasuring the library's choice"));
  err_.str("");
  out_.str("");
  EXPECT_THAT(Measure(/*err_is_terminal=*/false), IsOk());
  EXPECT_THAT(err_.str(), IsEmpty());
}

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

TEST_F(TuneCommandTest, AFileThatCannotBeWrittenIsNamedBeforeAllMeasuring) {
  options_.collectives = {"barrier"};
  for (const std::string path : {"/dev/null/tuned.json", "/dev/null", "/tmp"}) {
    options_.output = path;
    EXPECT_THAT(Tune(), ExitsWith(1, HasSubstr(path.substr(0, 4))));
    EXPECT_EQ(out_.str(), "");  // No report.
  }
}

TEST_F(TuneCommandTest, ADeadlineEndsItAndNamesWhatWasMeasured) {
  options_.deadline_seconds = 1e-9;
  EXPECT_THAT(
      Tune(),
      StatusIs(
          absl::StatusCode::kDeadlineExceeded,
          ContainsRegex("^all_reduce sum of 4 bytes on 1x2, [A-Za-z]+: .*the "
                        "deadline passed after ")));
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

}  // namespace measuring_commands_test
}  // namespace tutti
