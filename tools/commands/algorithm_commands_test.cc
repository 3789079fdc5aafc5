#include "tools/commands/algorithm_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/base/named_only_testing.h"
#include "tools/cluster/command.h"
#include "tools/request/wrong_algorithms_testing.h"
#include "tutti/schedule.h"

namespace tutti {
namespace algorithm_commands_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

double BytesAsSeconds(const CostQuery& query) {
  return static_cast<double>(query.bytes);
}
double TwelveSeconds(const CostQuery&) { return 12; }
double OneMicrosecond(const CostQuery&) { return 1e-6; }

class ExplainCommandTest : public ::testing::Test {
 protected:
  ExplainCommandTest() {
    const std::vector<CollectiveType> reductions = {CollectiveType::kAllReduce};
    Register("Any",
             {.collectives = reductions, .cost_seconds = BytesAsSeconds});
    Register("Fixed",
             {.collectives = reductions, .cost_seconds = TwelveSeconds});
    Register("Fused", {.collectives = reductions,
                       .needs_one_process = true,
                       .cost_seconds = OneMicrosecond});
    Register("Gpu", {.collectives = reductions,
                     .device_types = {"GPU"},
                     .cost_seconds = OneMicrosecond});
    Register("Another", {.collectives = {CollectiveType::kBarrier},
                         .cost_seconds = OneMicrosecond});
    Register("Quiet", {.collectives = reductions});
    options_.collective.collective = "all_reduce";
    options_.layout = "2x2";
    options_.bytes = "16";
  }

  void Register(const std::string& name, ImplementationTraits traits) {
    ASSERT_THAT(registry_.Register(
                    name, std::make_shared<NamedOnly>(std::move(traits))),
                IsOk());
  }

  absl::Status Explain() {
    out_.str("");
    return ExplainChoice(options_, registry_, {out_, err_});
  }

  nlohmann::json ExplainInJson() {
    options_.json = true;
    EXPECT_THAT(Explain(), IsOk());
    return nlohmann::json::parse(out_.str());
  }

  CollectiveRegistry registry_;
  ExplainOptions options_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(ExplainCommandTest, TheCheapestComeFirstAndThenWhatIsRuledOut) {
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_EQ(out_.str(),
            "all_reduce sum of 16 bytes (4 float32) on 2x2, 2 processes\n"
            "algorithm  predicted [us]  verdict\n"
            "Fixed          12000000.0  chosen\n"
            "Any            16000000.0\n"
            "Fused                   -  needs all members in one process\n"
            "Gpu                     -  runs on GPU, not on CPU\n"
            "Quiet                   -  runs only when named\n"
            "Another                 -  does not do all_reduce\n");
}

TEST_F(ExplainCommandTest, GpusHaveTheirOwn) {
  options_.choice.device_type = "GPU";
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("2 processes, GPU devices\n"));
  const auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Gpu");
  EXPECT_EQ(json["device_type"], "GPU");
}

TEST_F(ExplainCommandTest, SizeDecides) {
  EXPECT_EQ(ExplainInJson()["chosen"], "Fixed");
  options_.bytes = "8";
  EXPECT_EQ(ExplainInJson()["chosen"], "Any");
}

TEST_F(ExplainCommandTest, OneTaskIsOneProcessAndMoreAreIfToldSo) {
  options_.layout = "1x4";
  EXPECT_EQ(ExplainInJson()["chosen"], "Fused");
  options_.layout = "4x1";
  EXPECT_EQ(ExplainInJson()["chosen"], "Fixed");
  options_.one_process = true;
  EXPECT_EQ(ExplainInJson()["chosen"], "Fused");
}

TEST_F(ExplainCommandTest, UnderMpirunMessagesCostLessAndMpiCanServe) {
  Register("Mpi", {.collectives = {CollectiveType::kAllReduce},
                   .delegate = "MPI",
                   .cost_seconds = [](const CostQuery& query) {
                     return query.model.between.latency_seconds;
                   }});
  options_.layout = "2x1";
  auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Fixed");
  EXPECT_FALSE(json["mpi"]);
  EXPECT_EQ(json["process_latency_us"], 50);
  options_.mpi = true;
  json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Mpi");
  EXPECT_TRUE(json["mpi"]);
  EXPECT_EQ(json["process_latency_us"], 14);
  EXPECT_EQ(json["candidates"][0]["predicted_us"], 14);
  options_.json = false;
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("on 2x1, 2 processes under mpirun\n"));
}

TEST_F(ExplainCommandTest, ProcessesUnderMpirunMayShareProcessors) {
  options_.layout = "8x1";
  options_.mpi = true;
  const auto apart = ExplainInJson();
  EXPECT_TRUE(apart["processors"].is_null());
  options_.processors = 8;
  EXPECT_EQ(ExplainInJson(), apart);
  options_.processors = 2;
  const auto together = ExplainInJson();
  EXPECT_EQ(together["processors"], 2);
  EXPECT_GT(together["process_latency_us"], apart["process_latency_us"]);
}

TEST_F(ExplainCommandTest, TheNamedOneIsChosenIfItCanServe) {
  options_.algorithm = "Any";
  EXPECT_EQ(ExplainInJson()["chosen"], "Any");
  options_.algorithm = "Quiet";
  const auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Quiet");
  EXPECT_EQ(json["candidates"][2]["name"], "Quiet");
  EXPECT_TRUE(json["candidates"][2]["predicted_us"].is_null());
  EXPECT_TRUE(json["candidates"][2]["ruled_out"].is_null());
}

TEST_F(ExplainCommandTest, ADemandForDeterminismRulesOut) {
  Register("Ordered", {.collectives = {CollectiveType::kAllReduce},
                       .determinism = Determinism::kByRankOrder,
                       .cost_seconds = [](const CostQuery&) { return 99.0; }});
  options_.choice.determinism = Determinism::kByRankOrder;
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("2 processes, determinism by rank order\n"),
                    HasSubstr("offers determinism \"fixed layout\"")));
  const auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Ordered");
  EXPECT_EQ(json["determinism"], "by rank order");
  EXPECT_EQ(json["candidates"][0]["determinism"], "by rank order");
}

TEST_F(ExplainCommandTest, TheRulesThatWereAskedAreShown) {
  options_.rules = std::make_shared<const SelectionRules>(SelectionRules{
      {{.min_bytes = 17, .implementation = "Fixed", .where = "r.json:2"},
       {.implementation = "Fused", .where = "r.json:3"},
       {.implementation = "Quiet", .where = "r.json:4"}}});
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("Quiet                   -  chosen\n"),
                    HasSubstr("r.json:3: Fused needs all members in one "
                              "process\n"
                              "r.json:4: Quiet is chosen by this rule\n")));
  const auto json = ExplainInJson();
  EXPECT_EQ(json["chosen"], "Quiet");
  ASSERT_EQ(json["rules"].size(), 2u);
  EXPECT_EQ(json["rules"][0]["where"], "r.json:3");
  EXPECT_EQ(json["rules"][1]["algorithm"], "Quiet");
  EXPECT_TRUE(json["rules"][1]["ruled_out"].is_null());
}

TEST_F(ExplainCommandTest, ANamedOneThatCannotServeFailsAndSaysWhy) {
  options_.algorithm = "Fused";
  EXPECT_THAT(
      Explain(),
      ExitsWith(1,
                "Fused needs all members in one process; these can serve: Any, "
                "Fixed, Quiet"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("chosen")));
  EXPECT_THAT(out_.str(), HasSubstr("Fixed"));
}

TEST_F(ExplainCommandTest, WhereNoneCanServeAllSayWhy) {
  options_.collective.collective = "broadcast";
  const absl::Status status = Explain();
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_THAT(out_.str(), HasSubstr("Any                     -  does not do"));
}

TEST_F(ExplainCommandTest, TheJsonHasTheQuestionAndTheModel) {
  options_.collective.collective = "all_reduce";
  options_.bytes = "18";
  const auto json = ExplainInJson();
  EXPECT_EQ(json["collective"], "all_reduce");
  EXPECT_EQ(json["layout"], "2x2");
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["tasks"], 2);
  EXPECT_EQ(json["one_process"], false);
  EXPECT_EQ(json["bytes"], 16);  // Rounded to whole elements.
  EXPECT_EQ(json["count"], 4);
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["reduction"], "sum");
  EXPECT_EQ(json["latency_us"], 1);
  EXPECT_EQ(json["bandwidth"], 5);
  EXPECT_EQ(json["process_latency_us"], 50);
  EXPECT_EQ(json["process_bandwidth"], 2.5);
  EXPECT_EQ(json["process_gap_us"], 40);
  EXPECT_EQ(json["candidates"].size(), 6u);
  EXPECT_EQ(json["candidates"][0]["predicted_us"], 12e6);
}

TEST_F(ExplainCommandTest, WithinOneProcessNoLinkLeadsOutOfIt) {
  options_.one_process = true;
  const auto json = ExplainInJson();
  EXPECT_EQ(json["latency_us"], 1);
  EXPECT_TRUE(json["process_latency_us"].is_null());
  EXPECT_TRUE(json["process_bandwidth"].is_null());
  EXPECT_TRUE(json["process_gap_us"].is_null());
}

TEST_F(ExplainCommandTest, ABarrierHasNoData) {
  options_.collective.collective = "barrier";
  EXPECT_THAT(Explain(), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("barrier on 2x2, 2 processes\n"));
  const auto json = ExplainInJson();
  EXPECT_EQ(json["bytes"], 0);
  EXPECT_TRUE(json["dtype"].is_null());
}

// Rank 0 sends a message that no rank receives.
Schedule Lose(const PlanRequest& request) {
  Schedule schedule;
  if (request.rank == 0) {
    schedule.lanes = {{{.kind = StepKind::kSend, .left = Input(0), .peer = 1}}};
  }
  return schedule;
}

class ScheduleCommandTest : public ::testing::Test {
 protected:
  ScheduleCommandTest() {
    const CollectiveRegistry& global = CollectiveRegistry::Global();
    EXPECT_THAT(registry_.Register("Trees", *global.Find("TreeReduce")),
                IsOk());
    EXPECT_THAT(
        registry_.Register("DoubleTrees", *global.Find("DoubleTreeReduce")),
        IsOk());
    EXPECT_THAT(registry_.Register("Permute", *global.Find("Permute")), IsOk());
    EXPECT_THAT(registry_.Register("Rings", *global.Find("RingReduce")),
                IsOk());
    EXPECT_THAT(
        registry_.Register("LocalThenRing", *global.Find("LocalThenRing")),
        IsOk());
    EXPECT_THAT(registry_.Register("Refuser", RefusingAllReduce()), IsOk());
    EXPECT_THAT(
        registry_.Register(
            "Loser",
            Scheduled({.traits = {.collectives = {CollectiveType::kAllReduce}},
                       .plan = Lose})),
        IsOk());
  }

  absl::Status Show(const ScheduleOptions& options) {
    out_.str("");
    return ShowSchedule(options, registry_, {out_, err_});
  }

  CollectiveRegistry registry_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(ScheduleCommandTest, TheTextHasEveryStepOfEveryRank) {
  EXPECT_THAT(Show({.words = {.name = "Permute", .ranks = 2}}), IsOk());
  EXPECT_EQ(out_.str(),
            "Permute: permute on 1x2, permutation 1,0; 1 chunk\n"
            "\nrank 0\n"
            "    0.0  recv data[0] from 1, tag 0\n"
            "    1.0  send input[0] to 1, tag 0\n"
            "\nrank 1\n"
            "    0.0  recv data[0] from 0, tag 0\n"
            "    1.0  send input[0] to 0, tag 0\n");
}

TEST_F(ScheduleCommandTest, TheFirstCollectiveIsShownUnlessAnotherIsNamed) {
  EXPECT_THAT(Show({.words = {.name = "Trees"}}), IsOk());
  EXPECT_THAT(out_.str(), StartsWith("Trees: all_reduce on 1x8"));
  EXPECT_THAT(
      Show({.words = {.name = "Trees",
                      .layout = "2x2",
                      .collective = {.collective = "reduce", .root = 3}}}),
      IsOk());
  EXPECT_THAT(out_.str(), StartsWith("Trees: reduce on 2x2, root 3"));
}

TEST_F(ScheduleCommandTest, WhatStandsForCodeIsShownWithANote) {
  const char note[] =
      "note: runs in chunks of 16777216 bytes; within a task, passes over "
      "memory take the place of messages\n";
  EXPECT_THAT(Show({.words = {.name = "LocalThenRing", .layout = "1x2"}}),
              IsOk());
  EXPECT_EQ(out_.str(),
            absl::StrCat("LocalThenRing: all_reduce on 1x2, offsets 0; 1 "
                         "chunk\n",
                         note,
                         "\nrank 0\n"
                         "    0.0  recv scratch[0].2 from 1, tag 0\n"
                         "    0.1  data[0] = input[0] (+) scratch[0].2\n"
                         "    1.0  data[0] = data[0], finish, after 0.1\n"
                         "    2.0  send data[0] to 1, tag 1, after 1.0\n"
                         "\nrank 1\n"
                         "    0.0  send input[0] to 0, tag 0\n"
                         "    1.0  recv data[0] from 0, tag 1\n"));
  for (const bool svg : {true, false}) {
    const std::string path = ::testing::TempDir() + "/stand_in";
    ScheduleOptions options = {
        .words = {.name = "LocalThenRing", .layout = "2x4"}};
    (svg ? options.svg : options.goal) = path;
    EXPECT_THAT(Show(options), IsOk());
    EXPECT_THAT(out_.str(), HasSubstr(absl::StrCat(path, "\n", note)));
    std::stringstream file;
    file << std::ifstream(path).rdbuf();
    EXPECT_THAT(file.str(), svg ? HasSubstr("within a task, passes over")
                                : HasSubstr("send"));
  }
}

int HeightOf(const std::string& svg) {
  const std::string attribute = "height=\"";
  return std::stoi(svg.substr(svg.find(attribute) + attribute.size()));
}

TEST_F(ScheduleCommandTest, APictureOfManyPiecesShowsTheFirstAndSaysSo) {
  const std::string path = ::testing::TempDir() + "/pieces.svg";
  for (const char* bytes : {"1M", "64M"}) {
    EXPECT_THAT(
        Show({.words = {.name = "DoubleTrees", .ranks = 16, .bytes = bytes},
              .svg = path}),
        IsOk());
    const std::string title =
        "DoubleTrees: all_reduce on 1x16, 4 subdivisions, offsets 0 "
        "(the first of 64)";
    EXPECT_EQ(out_.str(), absl::StrCat(title, ": wrote ", path, "\n"));
    std::stringstream svg;
    svg << std::ifstream(path).rdbuf();
    EXPECT_THAT(svg.str(), HasSubstr(absl::StrCat("<title>", title, "<")));
    EXPECT_LT(HeightOf(svg.str()), 1500);
  }
}

TEST_F(ScheduleCommandTest, APictureHasAllRingsOfDifferentOffsets) {
  const std::string path = ::testing::TempDir() + "/rings.svg";
  EXPECT_THAT(
      Show({.words = {.name = "Rings", .layout = "1x3", .bytes = "128M"},
            .svg = path}),
      IsOk());
  EXPECT_THAT(out_.str(), StartsWith("Rings: all_reduce on 1x3, offsets "
                                     "0,-1,2,-3,4,-5: wrote"));
}

TEST_F(ScheduleCommandTest, TextAndTracesHaveAllPieces) {
  EXPECT_THAT(Show({.words = {.name = "DoubleTrees", .ranks = 16}}), IsOk());
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("64 subdivisions"),
                                HasSubstr("128 chunks"), HasSubstr("[127]")));
  const std::string path = ::testing::TempDir() + "/pieces.goal";
  EXPECT_THAT(
      Show({.words = {.name = "DoubleTrees", .ranks = 16}, .goal = path}),
      IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("on 1x16, 64 subdivisions, offsets 0: "));
  std::stringstream goal;
  goal << std::ifstream(path).rdbuf();
  EXPECT_THAT(goal.str(), HasSubstr(" tag 127"));
}

TEST_F(ScheduleCommandTest, PlansThatDoNotFitTogetherAreShownAsText) {
  EXPECT_THAT(Show({.words = {.name = "Loser", .ranks = 2}}), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("send input[0] to 1"));
  for (const ScheduleOptions& options :
       {ScheduleOptions{.words = {.name = "Loser", .ranks = 2}, .svg = "x.svg"},
        ScheduleOptions{.words = {.name = "Loser", .ranks = 2},
                        .goal = "x.goal"}}) {
    EXPECT_THAT(Show(options), ExitsWith(1, HasSubstr("rank 0, 0.0")));
  }
}

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
      EXPECT_THAT(
          Run({.words = {.name = "RingGather",
                         .layout = "4x2",
                         .bytes = "8000"},
               .topology = path,
               .json = json}),
          ExitsWith(2, AllOf(HasSubstr(path), HasSubstr("by links \"all\""),
                             HasSubstr("a lower \"latency_us\""))))
          << link;
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
    EXPECT_THAT(
        Run({.words = {.name = "RingGather", .layout = "4x2", .bytes = "8000"},
             .topology = path}),
        ExitsWith(
            2, AllOf(HasSubstr(path), HasSubstr("wanted is a larger number"))));
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
  EXPECT_THAT(Run({.words = {.name = "BruckAllToAll", .ranks = 100000}}),
              ExitsWith(1, HasSubstr("wanted are at most 6000000 in all")));
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
      const auto chunks = [&json](int link) {
        return json["links"][link]["bytes"].get<double>() /
               json["chunk_bytes"].get<double>();
      };
      EXPECT_NEAR(chunks(0) / (2 * n * (devices - 1) * tasks), 1, 1e-6);
      EXPECT_NEAR(chunks(1) / (2 * n * (tasks - 1)), 1, 1e-6);
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
  EXPECT_THAT(Verify(), ExitsWith(1, "1 of 3 algorithms failed"));
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
  EXPECT_THAT(Verify(), ExitsWith(1, "2 of 3 algorithms failed"));
  for (const char* name : {"Halved", "Passed"}) {
    EXPECT_THAT(out_.str(),
                ContainsRegex(absl::StrCat(name, " +- +1 +1  FAILED\n  .*",
                                           "named \"Nobody\"")));
  }
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

}  // namespace algorithm_commands_test
}  // namespace tutti
