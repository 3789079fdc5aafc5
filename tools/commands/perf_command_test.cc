#include "tools/commands/perf_command.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/request/wrong_algorithms.h"
#include "tutti/environment.h"

namespace tutti {
namespace perf_command_test {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  const absl::Status status = Measure();
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not today"));
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

TEST_F(PerfCommandTest, NothingIsPrintedForAWrongCommandLine) {
  options_.sweep.dtype = "float8";
  EXPECT_EQ(ExitStatus(Measure()), 2);
  EXPECT_THAT(out_.str(), IsEmpty());
}

TEST_F(PerfCommandTest, ProgressGoesToATerminalAlone) {
  EXPECT_THAT(Measure(/*err_is_terminal=*/true), IsOk());
  EXPECT_THAT(err_.str(), HasSubstr("\rmeasuring the library's choice"));
  err_.str("");
  out_.str("");
  EXPECT_THAT(Measure(/*err_is_terminal=*/false), IsOk());
  EXPECT_THAT(err_.str(), IsEmpty());
}

}  // namespace perf_command_test
}  // namespace tutti
