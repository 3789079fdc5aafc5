#include "tools/commands/simulate_command.h"

#include <fstream>
#include <sstream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/cluster/command.h"

namespace tutti {
namespace simulate_command_test {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SimulateCommandTest : public ::testing::Test {
 protected:
  absl::Status Run(const SimulateOptions& options) {
    out_.str("");
    return SimulateAlgorithm(options, CollectiveRegistry::Global(),
                             {out_, err_});
  }

  // Runs a command line as the tool parses it.
  absl::Status RunLine(const std::string& line) {
    CLI::App app;
    const Command command = AddSimulateCommand(&app);
    app.parse(line);
    out_.str("");
    return command.run({out_, err_});
  }

  nlohmann::json JsonOf(SimulateOptions options) {
    options.json = true;
    EXPECT_THAT(Run(options), IsOk());
    return nlohmann::json::parse(out_.str());
  }

  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(SimulateCommandTest, TheTextHasTimeBoundBuffersAndLinks) {
  EXPECT_THAT(
      Run({.words = {.name = "RingGather", .layout = "4x2", .bytes = "8000"}}),
      IsOk());
  // 0.1 us to copy the own block, then 7 rounds of 50 us and 1000 bytes.
  EXPECT_EQ(out_.str(),
            "RingGather: all_gather of 8000 bytes on 4x2\n"
            "time         352.9 us, 7 rounds\n"
            "lower bound  52.4 us, 14.8 % of the time\n"
            "buffers      9000 bytes: input 1000, output 8000, scratch 0\n"
            "ranks        2 simulated; all 8 do the same, elsewhere\n"
            "links          latency [us]  bandwidth [GB/s]  bytes  messages\n"
            "within tasks              1                 5  28000        28\n"
            "between tasks            50               2.5  28000        28\n");
}

TEST_F(SimulateCommandTest, TheSameAsJson) {
  const auto json = JsonOf(
      {.words = {
           .name = "RingReduceScatter", .layout = "4x2", .bytes = "8000"}});
  EXPECT_EQ(json["collective"], "reduce_scatter");
  EXPECT_EQ(json["layout"], "4x2");
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["bytes"], 8000);
  EXPECT_EQ(json["rounds"], 7);
  EXPECT_EQ(json["simulated_ranks"], 2);
  EXPECT_EQ(json["input_bytes"], 8000);
  EXPECT_EQ(json["output_bytes"], 1000);
  EXPECT_EQ(json["scratch_bytes"], 2000);
  EXPECT_THAT(json["time_us"].get<double>(),
              DoubleNear(7 * (50 + 0.4 + 0.1), 1e-6));
  EXPECT_THAT(json["share"].get<double>(),
              DoubleNear((50 + 2.4) / (7 * 50.5), 1e-6));
  EXPECT_EQ(json["links"][1]["messages"], 28);
}

TEST_F(SimulateCommandTest, OneRankHasNothingToWaitFor) {
  EXPECT_TRUE(
      JsonOf({.words = {.name = "RingReduce", .ranks = 1}})["share"].is_null());
  EXPECT_THAT(Run({.words = {.name = "TreeReduce", .ranks = 1}}), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("nothing to wait for"));
}

TEST_F(SimulateCommandTest, ABarrierMovesTokens) {
  const auto json = JsonOf({.words = {.name = "Barrier", .ranks = 8}});
  EXPECT_EQ(json["bytes"], 1);
  EXPECT_EQ(json["links"][0]["bytes"], 24);
  EXPECT_THAT(Run({.words = {.name = "Barrier", .ranks = 2}}), IsOk());
  EXPECT_THAT(out_.str(), StartsWith("Barrier: barrier on 1x2\n"));
  EXPECT_THAT(out_.str(), HasSubstr(" us, 1 round\n"));
}

TEST_F(SimulateCommandTest, ATopologyIsAnotherMachine) {
  const std::string path = ::testing::TempDir() + "/topology.json";
  std::ofstream(path) << R"({"links": [
      {"name": "all", "latency_us": 3, "gb_per_s": 1}]})";
  const auto json =
      JsonOf({.words = {.name = "RingGather", .layout = "4x2", .bytes = "8000"},
              .topology = path});
  EXPECT_THAT(json["time_us"].get<double>(),
              DoubleNear(0.1 + 7 * (3 + 1), 1e-6));
  EXPECT_EQ(json["links"].size(), 1);
  std::ofstream(path) << "{";
  EXPECT_EQ(
      ExitStatus(Run({.words = {.name = "RingGather"}, .topology = path})), 2);
}

TEST_F(SimulateCommandTest, ATimeWithoutANumberIsAnErrorThatNamesIt) {
  const std::string path = ::testing::TempDir() + "/endless.json";
  for (const char* link : {R"("latency_us": 1e308, "gb_per_s": 1)",
                           R"("latency_us": 1, "gb_per_s": 1e-316)"}) {
    std::ofstream(path) << R"({"links": [{"name": "all", )" << link << "}]}";
    for (bool json : {false, true}) {
      const absl::Status status = Run(
          {.words = {.name = "RingGather", .layout = "4x2", .bytes = "8000"},
           .topology = path,
           .json = json});
      EXPECT_EQ(ExitStatus(status), 2) << link << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(path), HasSubstr("by links \"all\""),
                        HasSubstr("a lower \"latency_us\"")));
      EXPECT_EQ(out_.str(), "");
    }
  }
}

TEST_F(SimulateCommandTest, ASpeedAtWhichAByteTakesForEverIsRefused) {
  const std::string path = ::testing::TempDir() + "/slow.json";
  for (const char* speed : {"reduced_gb_per_s", "copied_gb_per_s"}) {
    std::ofstream(path) << R"({"links": [
        {"name": "all", "latency_us": 3, "gb_per_s": 1}], ")"
                        << speed << "\": 1e-320}";
    const absl::Status status =
        Run({.words = {.name = "RingGather", .layout = "4x2", .bytes = "8000"},
             .topology = path});
    EXPECT_EQ(ExitStatus(status), 2) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path), HasSubstr("wanted is a larger number")));
  }
}

TEST_F(SimulateCommandTest, HostsSayHowLongTheirProcessorsWork) {
  const std::string path = ::testing::TempDir() + "/hosts.json";
  std::ofstream(path) << R"({"links": [
      {"name": "all", "latency_us": 3, "gb_per_s": 1}],
      "host": {"tasks": 2, "processors": 1, "inline_bytes": 0},
      "copied_gb_per_s": 1e9})";
  // Two hosts of two ranks, 1000 bytes each: in each of three rounds of 3 + 1,
  // one of a host's two messages leaves the host.
  SimulateOptions options = {
      .words = {.name = "RingGather", .layout = "4x1", .bytes = "4000"},
      .topology = path};
  const auto json = JsonOf(options);
  EXPECT_THAT(json["time_us"].get<double>(), DoubleNear(3 * 4, 1e-3));
  EXPECT_EQ(json["processors"], 2);
  EXPECT_THAT(json["processors_share"].get<double>(), DoubleNear(0.25, 1e-3));
  EXPECT_EQ(json["chunk_bytes"], 1000);
  EXPECT_THAT(Run(options), IsOk());
  EXPECT_THAT(out_.str(),
              HasSubstr("\nprocessors   2, at work for 25.0 % of the time\n"));
  options.topology.clear();
  EXPECT_TRUE(JsonOf(options)["processors"].is_null());
}

TEST_F(SimulateCommandTest, AHundredThousandRanksShareHosts) {
  const std::string path = ::testing::TempDir() + "/large.json";
  std::ofstream(path) << R"({"links": [
      {"name": "in", "latency_us": 1, "gb_per_s": 5},
      {"name": "out", "latency_us": 50, "gb_per_s": 2.5}],
      "host": {"tasks": 1, "processors": 16}})";
  const auto json = JsonOf({.words = {.name = "RecursiveHalvingDoublingReduce",
                                      .layout = "12500x8",
                                      .bytes = "64M"},
                            .topology = path});
  EXPECT_EQ(json["processors"], 12500 * 16);
  EXPECT_GT(json["processors_share"], 0);
}

TEST_F(SimulateCommandTest, GroupsTooLargeToPlanAreRefused) {
  const absl::Status status =
      Run({.words = {.name = "BruckAllToAll", .ranks = 100000}});
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("wanted are at most 6000000 in all"));
  EXPECT_EQ(
      ExitStatus(Run({.words = {.name = "RingReduce", .layout = "1001x1000"}})),
      2);
}

TEST_F(SimulateCommandTest, AHundredThousandRanksAreSimulated) {
  const auto ring = JsonOf(
      {.words = {.name = "RingReduce", .layout = "12500x8", .bytes = "64M"}});
  EXPECT_EQ(ring["simulated_ranks"], 3);
  EXPECT_EQ(ring["rounds"], 2 * (100000 - 1));
  const auto halving =
      JsonOf({.words = {.name = "RecursiveHalvingDoublingReduce",
                        .layout = "12500x8",
                        .bytes = "64M"}});
  EXPECT_EQ(halving["rounds"], 2 * 17);
  EXPECT_LT(halving["time_us"], ring["time_us"]);
}

TEST_F(SimulateCommandTest, AHundredThousandRanksOnTwoLevelsAreSimulated) {
  const double n = 100000;
  for (const char* name :
       {"ShuffleThenRing", "ShuffleThenShuffle", "HierarchicalRingReduce",
        "ShuffleThenRecursiveHalvingDoubling"}) {
    for (const int tasks : {1000, 12500}) {
      const int devices = 100000 / tasks;
      const std::string layout = absl::StrCat(tasks, "x", devices);
      SCOPED_TRACE(absl::StrCat(name, " ", layout));
      const auto json =
          JsonOf({.words = {.name = name, .layout = layout, .bytes = "64M"}});
      EXPECT_EQ(json["links"][0]["messages"].get<double>(),
                2 * n * (devices - 1) * tasks);
      EXPECT_EQ(json["links"][1]["messages"].get<double>(),
                2 * n * (tasks - 1));
    }
  }
}

TEST_F(SimulateCommandTest, RingsOfAHundredThousandRanksMayHaveAnyLayout) {
  const int n = 100000;
  for (const char* layout : {"2x50000", "10x10000", "50000x2"}) {
    for (const char* name : {"RingReduce", "RingGather", "RingReduceScatter"}) {
      SCOPED_TRACE(absl::StrCat(name, " ", layout));
      const auto json =
          JsonOf({.words = {.name = name, .layout = layout, .bytes = "64M"}});
      const double rounds = json["rounds"].get<double>();
      EXPECT_LE(json["simulated_ranks"], 3);
      EXPECT_GT(json["time_us"].get<double>(), rounds * 50);
      EXPECT_EQ(json["links"][0]["messages"].get<double>() +
                    json["links"][1]["messages"].get<double>(),
                rounds * n);
    }
  }
}

TEST_F(SimulateCommandTest, DoubleTreesOfAHundredThousandRanksAreSimulated) {
  const int n = 100000;
  const auto whole = JsonOf(
      {.words = {
           .name = "DoubleTreeReduce", .layout = "12500x8", .bytes = "8"}});
  EXPECT_EQ(whole["chunk_bytes"], 4);  // One piece for each tree.
  EXPECT_LE(whole["rounds"], 3 * 17);
  const double bytes = 1 << 20;
  const auto pieces = JsonOf(
      {.words = {
           .name = "DoubleTreeReduce", .layout = "12500x8", .bytes = "1M"}});
  const double num_pieces = bytes / 2 / pieces["chunk_bytes"].get<double>();
  EXPECT_GT(num_pieces, 1.5);
  EXPECT_THAT(pieces["rounds"].get<double>(),
              DoubleNear(whole["rounds"].get<double>() + num_pieces - 1, 1e-6));
  double sent = 0;
  for (const auto& link : pieces["links"]) sent += link["bytes"].get<double>();
  EXPECT_THAT(sent, DoubleNear(2 * (n - 1) * bytes, 1e3));
}

TEST_F(SimulateCommandTest, WhatStandsForCodeIsSimulatedWithANote) {
  const SimulateOptions options = {
      .words = {.name = "LocalThenRing", .layout = "2x3", .bytes = "5000000"}};
  EXPECT_THAT(Run(options), IsOk());
  // 2 x 5 MB at 5 GB/s reach the first ranks, which reduce them at 10 GB/s.
  // Half of it goes each way between tasks at 2.5 GB/s, twice, and is reduced
  // once. The first ranks copy at 10 GB/s, and 2 x 5 MB leave them.
  const double want =
      (1 + 2000 + 1000) + 2 * (50 + 1000) + 250 + 500 + (1 + 2000);
  EXPECT_EQ(
      out_.str(),
      absl::StrFormat(
          "LocalThenRing: all_reduce of 5000000 bytes on 2x3\n"
          "time         %.1f us, 4 rounds\n"
          "lower bound  2050.0 us, %.1f %% of the time\n"
          "buffers      20000000 bytes: input 5000000, output 5000000, scratch "
          "10000000\n"
          "ranks        3 simulated; all 6 do the same, elsewhere\n"
          "note         runs in chunks of 16777216 bytes; within a task, "
          "passes over memory take the place of messages\n"
          "links          latency [us]  bandwidth [GB/s]     bytes  messages\n"
          "within tasks              1                 5  40000000        16\n"
          "between tasks            50               2.5  10000000         4\n",
          want, 205000 / want));
  EXPECT_THAT(JsonOf(options)["note"].get<std::string>(), HasSubstr("passes"));
  EXPECT_TRUE(JsonOf({.words = {.name = "RingReduce"}})["note"].is_null());
}

TEST_F(SimulateCommandTest, LocalThenAmongAHundredThousandRanksIsSimulated) {
  for (const char* name :
       {"LocalThenRing", "LocalThenRecursiveDoubling",
        "LocalThenRecursiveHalvingDoubling", "LocalThenDoubleTree"}) {
    for (const char* layout : {"1000x100", "10000x10"}) {
      SCOPED_TRACE(absl::StrCat(name, " ", layout));
      const auto json =
          JsonOf({.words = {.name = name, .layout = layout, .bytes = "64M"}});
      EXPECT_GE(json["time_us"], json["lower_bound_us"]);
    }
  }
}

TEST_F(SimulateCommandTest, PipelinesToAHundredThousandRanksAreSimulated) {
  const int n = 100000;
  const double bytes = 1 << 20;
  for (const char* name : {"ChainBroadcast", "DoubleTreeBroadcast"}) {
    const auto json =
        JsonOf({.words = {.name = name, .layout = "1000x100", .bytes = "1M"}});
    double sent = 0;
    for (const auto& link : json["links"]) sent += link["bytes"].get<double>();
    EXPECT_THAT(sent, DoubleNear((n - 1) * bytes, 1e3)) << name;
    EXPECT_GE(json["time_us"], json["lower_bound_us"]) << name;
  }
}

TEST_F(SimulateCommandTest, AHundredThousandRanksAndTheirRootAreSimulated) {
  const int n = 100000;
  for (const char* name : {"Gather", "Scatter"}) {
    SCOPED_TRACE(name);
    const auto json = JsonOf({.words = {.name = name,
                                        .layout = "1000x100",
                                        .collective = {.root = 70000},
                                        .bytes = "64M"}});
    EXPECT_EQ(json["rounds"], n / 8);
    EXPECT_EQ(json["links"][0]["messages"], 99);
    EXPECT_EQ(json["links"][1]["messages"], n - 100);
    EXPECT_THAT(
        json["links"][1]["bytes"].get<double>(),
        DoubleNear((n - 100.0) / n * json["bytes"].get<double>(), 1e-3));
    EXPECT_GE(json["time_us"], json["lower_bound_us"]);
  }
}

TEST_F(SimulateCommandTest, AnyOfAHundredThousandRanksCanBeTheRoot) {
  EXPECT_THAT(
      RunLine("simulate HierarchicalTreeBroadcast --ranks 100000 --root 70000"),
      IsOk());
  EXPECT_EQ(
      ExitStatus(RunLine("simulate HierarchicalTreeBroadcast --ranks 100000 "
                         "--root 100000")),
      2);
}

}  // namespace simulate_command_test
}  // namespace tutti
