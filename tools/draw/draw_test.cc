#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedule/proof/symbolic.h"
#include "schedule/step_depth.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/draw/schedule_files.h"
#include "tools/draw/topology_file.h"
#include "tutti/schedule.h"

namespace tutti {
namespace draw_test {

using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(GoalTraceTest, StepsRequireWhatTheyWaitFor) {
  ScheduleBuilder sender(1);
  auto send = sender.AddLane();
  const StepRef copied = send.Copy(Data(0), Input(0));
  send.Send(1, /*tag=*/7, Data(0));
  sender.AddLane().Send(1, /*tag=*/8, Data(0), copied);
  ScheduleBuilder receiver(1);
  auto recv = receiver.AddLane();
  const StepRef received = recv.Recv(0, /*tag=*/7, Data(0));
  auto reduce = receiver.AddLane();
  reduce.Recv(0, /*tag=*/8, Scratch(0));
  reduce.Reduce(Data(0), Scratch(0), Data(0), received);
  const std::vector<Schedule> schedules = {sender.Build(), receiver.Build()};
  const auto plan = GroupPlan::Create(
      {.num_ranks = 2, .in_place = {false, false}}, schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(GoalTrace(*plan, {0, 40, 0, 40, 0, 0}),
            "num_ranks 2\n"
            "\n"
            "rank 0 {\n"
            "l1: calc 0\n"
            "l2: send 40b to 1 tag 7\n"
            "l3: calc 0\n"
            "l2 requires l1\n"
            "l3 requires l1\n"
            "}\n"
            "\n"
            "rank 1 {\n"
            "l1: recv 40b from 0 tag 7\n"
            "l2: calc 0\n"
            "l3: calc 0\n"
            "l3 requires l2\n"
            "l3 requires l1\n"
            "}\n");
}

TEST(GoalTraceTest, AWaitIsACalculationThatOthersRequire) {
  ScheduleBuilder builder(1);
  auto lane = builder.AddLane();
  const StepRef copied = builder.AddLane().Copy(Scratch(0), Input(0));
  lane.Wait(copied);
  lane.Copy(Data(0), Scratch(0));
  const std::vector<Schedule> schedules = {builder.Build()};
  const auto plan =
      GroupPlan::Create({.num_ranks = 1, .in_place = {false}}, schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(GoalTrace(*plan, {0, 0, 0}),
            "num_ranks 1\n"
            "\n"
            "rank 0 {\n"
            "l1: calc 0\n"
            "l2: calc 0\n"
            "l3: calc 0\n"
            "l1 requires l3\n"
            "l2 requires l1\n"
            "}\n");
}

TEST(GoalTraceTest, ARankWithNothingToDoIsThereAllTheSame) {
  const std::vector<Schedule> schedules(1);
  const auto plan =
      GroupPlan::Create({.num_ranks = 1, .in_place = {false}}, schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(GoalTrace(*plan, {}), "num_ranks 1\n\nrank 0 {\nl1: calc 0\n}\n");
}

struct Transfer {
  int from;
  int to;
  int chunk;
};

// Places each transfer on a separate lane, with the sends in this order.
GroupPlan PlanOf(int num_ranks, const std::vector<Transfer>& transfers) {
  constexpr int kNumChunks = 16;
  std::vector<Schedule> schedules(num_ranks, {.num_chunks = kNumChunks});
  for (const Transfer& transfer : transfers) {
    const int tag = transfer.chunk;
    schedules[transfer.from].lanes.push_back({{.kind = StepKind::kSend,
                                               .left = Input(transfer.chunk),
                                               .peer = transfer.to,
                                               .tag = tag}});
    schedules[transfer.to].lanes.push_back({{.kind = StepKind::kRecv,
                                             .into = Data(transfer.chunk),
                                             .peer = transfer.from,
                                             .tag = tag}});
  }
  return *GroupPlan::Create({.num_ranks = num_ranks,
                             .num_chunks = kNumChunks,
                             .in_place = std::vector<bool>(num_ranks)},
                            schedules);
}

// "depth.line from-to: chunks" for each arrow.
std::vector<std::string> Shown(const GroupPlan& plan,
                               const std::vector<int>& depths) {
  std::vector<std::string> texts;
  for (const Arrow& arrow : ArrowsOf(plan, depths)) {
    texts.push_back(absl::StrCat(arrow.depth, ".", arrow.line, " ", arrow.from,
                                 "-", arrow.to, ": ", ChunksOf(plan, arrow)));
  }
  return texts;
}

std::vector<std::string> ShownAtOnce(const GroupPlan& plan) {
  return Shown(plan, std::vector<int>(plan.num_steps(), 1));
}

TEST(ScheduleArrowsTest, NothingSentHasNoArrows) {
  EXPECT_THAT(ShownAtOnce(PlanOf(3, {})), IsEmpty());
}

TEST(ScheduleArrowsTest, NeighboursShareALine) {
  EXPECT_THAT(ShownAtOnce(PlanOf(4, {{2, 3, 5}, {0, 1, 3}, {1, 2, 4}})),
              ElementsAre("1.0 0-1: 3", "1.0 1-2: 4", "1.0 2-3: 5"));
}

TEST(ScheduleArrowsTest, WhatOverlapsHasLinesOfItsOwn) {
  EXPECT_THAT(
      ShownAtOnce(PlanOf(3, {{0, 1, 0}, {1, 2, 1}, {2, 0, 2}, {1, 0, 3}})),
      ElementsAre("1.0 0-1: 0", "1.0 1-2: 1", "1.1 1-0: 3", "1.2 2-0: 2"));
}

TEST(ScheduleArrowsTest, AllThatGoesTheSameWayIsOneArrow) {
  EXPECT_THAT(ShownAtOnce(PlanOf(
                  2, {{0, 1, 7}, {0, 1, 0}, {0, 1, 2}, {0, 1, 1}, {0, 1, 9}})),
              ElementsAre("1.0 0-1: 0-2,7,9"));
}

TEST(ScheduleArrowsTest, DepthsAreApart) {
  const GroupPlan plan = PlanOf(2, {{0, 1, 0}, {0, 1, 1}});
  // Both sends of rank 0 come first, then both receives of rank 1.
  EXPECT_THAT(Shown(plan, {2, 1, 2, 1}),
              ElementsAre("1.0 0-1: 1", "2.0 0-1: 0"));
}

TEST(ScheduleArrowsTest, AllToAllNeedsNoMoreLinesThanCrossTheMiddle) {
  constexpr int kNumRanks = 6;
  std::vector<Transfer> transfers;
  for (int from = 0; from < kNumRanks; ++from) {
    for (int to = 0; to < kNumRanks; ++to) {
      if (from != to) transfers.push_back({from, to, 0});
    }
  }
  const GroupPlan plan = PlanOf(kNumRanks, transfers);
  const auto arrows = ArrowsOf(plan, std::vector<int>(plan.num_steps(), 1));
  ASSERT_EQ(arrows.size(), transfers.size());
  EXPECT_EQ(arrows.back().line, 2 * 3 * 3 - 1);
}

// Rank 0 sends all chunks to rank 1, which reduces the first.
GroupPlan PlanOf(int num_chunks) {
  ScheduleBuilder sender(num_chunks);
  ScheduleBuilder receiver(num_chunks);
  for (int chunk = 0; chunk < num_chunks; chunk += 2) {
    sender.AddLane().Send(1, /*tag=*/chunk, Input(chunk));
    auto lane = receiver.AddLane();
    lane.Recv(0, /*tag=*/chunk, Scratch(chunk));
    if (chunk > 0) continue;
    lane.Reduce(Data(0), Scratch(0), Input(0));
  }
  const std::vector<Schedule> schedules = {sender.Build(), receiver.Build()};
  return *GroupPlan::Create(
      {.num_ranks = 2, .num_chunks = num_chunks, .in_place = {false, false}},
      schedules);
}

std::string SvgOf(const GroupPlan& plan, const std::string& title,
                  const GroupLayout& layout) {
  const auto run = RunSymbolically(plan);
  EXPECT_TRUE(run.ok()) << run.status();
  const std::vector<int> depths = StepDepths(plan, run->completion_order);
  return ScheduleSvg(
      {.title = title, .layout = layout, .plan = plan, .depths = depths});
}

int CountOf(const std::string& word, const std::string& text) {
  return static_cast<int>(
             std::vector<std::string>(absl::StrSplit(text, word)).size()) -
         1;
}

TEST(ScheduleSvgTest, ATransferIsAnArrowWithItsChunk) {
  const std::string svg = SvgOf(PlanOf(1), "Rings", GroupLayout::Uniform(1, 2));
  EXPECT_THAT(svg, AllOf(HasSubstr("<title>Rings</title>"),
                         HasSubstr("send input[0] to 1, tag 0"),
                         HasSubstr(">0</text></g>")));
  EXPECT_EQ(CountOf("<polygon", svg), 1);
  EXPECT_EQ(CountOf("<circle class=\"reduce\"", svg), 1);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(ScheduleSvgTest, ANoteIsBelowTheLastBandAndFits) {
  const GroupPlan plan = PlanOf(1);
  const GroupLayout layout = GroupLayout::Uniform(1, 2);
  const auto run = RunSymbolically(plan);
  const std::vector<int> depths = StepDepths(plan, run->completion_order);
  const SchedulePicture picture = {.title = "Rings",
                                   .note = std::string(100, 'n') + " < m",
                                   .layout = layout,
                                   .plan = plan,
                                   .depths = depths};
  const std::string svg = ScheduleSvg(picture);
  EXPECT_THAT(svg, AllOf(HasSubstr("nnn &lt; m</text>\n</svg>\n"),
                         HasSubstr("width=\"748\"")));
}

TEST(ScheduleSvgTest, AWaitIsNothingToSee) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  const StepRef copied = builder.AddLane().Copy(Scratch(0), Input(0));
  builder.AddLane().Wait(copied);
  const Schedule schedules[] = {builder.Build()};
  const std::string svg =
      SvgOf(*GroupPlan::Create({.num_ranks = 1, .num_chunks = 1}, schedules),
            "Waits", GroupLayout::Uniform(1, 1));
  EXPECT_EQ(CountOf("<circle class=\"copy\"", svg), 1);
  EXPECT_THAT(svg, Not(HasSubstr("wait")));
}

TEST(ScheduleSvgTest, TasksAreMarkedAndWhatGoesBetweenThem) {
  const std::string within =
      SvgOf(PlanOf(1), "Rings", GroupLayout::Uniform(1, 2));
  EXPECT_THAT(within, AllOf(HasSubstr("<g class=\"near\">"),
                            Not(HasSubstr(">task 0<"))));
  const std::string between =
      SvgOf(PlanOf(1), "Rings", GroupLayout::Uniform(2, 1));
  EXPECT_THAT(between, AllOf(HasSubstr("<g class=\"far\">"),
                             HasSubstr(">task 0<"), HasSubstr(">task 1<")));
}

TEST(ScheduleSvgTest, LabelsThatDoNotFitAreCut) {
  const std::string svg =
      SvgOf(PlanOf(20), "Rings", GroupLayout::Uniform(1, 2));
  EXPECT_THAT(svg, HasSubstr(">0,2,…</text></g>"));
  EXPECT_THAT(svg, HasSubstr("send input[18] to 1, tag 18"));
}

TEST(ScheduleSvgTest, NamesAreEscaped) {
  const std::string svg =
      SvgOf(PlanOf(1), "<a & \"b\">", GroupLayout::Uniform(1, 2));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;a &amp; &quot;b&quot;&gt;</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("<a &")));
}

TEST(ScheduleSvgTest, NothingToDoIsDrawnAllTheSame) {
  const std::vector<Schedule> schedules(1);
  const auto plan =
      GroupPlan::Create({.num_ranks = 1, .in_place = {false}}, schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(SvgOf(*plan, "Idle", GroupLayout::Uniform(1, 1)),
              AllOf(HasSubstr(">rank</text>"), HasSubstr("</svg>\n")));
}

constexpr char kLink[] = R"({"name": "a", "latency_us": 1, "gb_per_s": 5})";

std::string ErrorOf(const std::string& text) {
  const absl::Status status = ParseTopology(text, "t.json").status();
  EXPECT_TRUE(IsUsageError(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith("t.json: "));
  return std::string(status.message());
}

std::string ErrorOfLink(const std::string& link) {
  return ErrorOf(absl::StrCat(R"({"links": [)", kLink, ", ", link, "]}"));
}

TEST(TopologyFileTest, EveryFieldIsRead) {
  const auto cluster = ParseTopology(
      R"({"links": [{"name": "a", "latency_us": 1, "gb_per_s": 5},
                    {"name": "b", "tasks": 8, "latency_us": 2, "gb_per_s": 6},
                    {"name": "c", "latency_us": 0, "gb_per_s": 0.5}],
          "message_us": 0.25, "reduced_gb_per_s": 7, "copied_gb_per_s": 8,
          "host": {"tasks": 9, "processors": 10, "inline_bytes": 11}})",
      "t.json");
  ASSERT_THAT(cluster, IsOk());
  ASSERT_EQ(cluster->links.size(), 3);
  EXPECT_EQ(cluster->links[0].tasks, 1);
  EXPECT_EQ(cluster->links[1].name, "b");
  EXPECT_EQ(cluster->links[1].tasks, 8);
  EXPECT_THAT(cluster->links[1].cost.latency_seconds, DoubleEq(2e-6));
  EXPECT_EQ(cluster->links[2].tasks, 0);
  EXPECT_THAT(cluster->links[2].cost.bytes_per_second, DoubleEq(5e8));
  EXPECT_THAT(cluster->seconds_per_message, DoubleEq(0.25e-6));
  EXPECT_THAT(cluster->reduced_bytes_per_second, DoubleEq(7e9));
  EXPECT_THAT(cluster->copied_bytes_per_second, DoubleEq(8e9));
  EXPECT_EQ(cluster->host.tasks, 9);
  EXPECT_EQ(cluster->host.processors, 10);
  EXPECT_EQ(cluster->host.inline_bytes, 11);
}

TEST(TopologyFileTest, WhatIsNotSaidIsAsByDefault) {
  const auto cluster =
      ParseTopology(absl::StrCat(R"({"links": [)", kLink, "]}"), "t.json");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_EQ(cluster->links[0].tasks, 0);
  EXPECT_EQ(cluster->reduced_bytes_per_second,
            ClusterModel().reduced_bytes_per_second);
  EXPECT_EQ(cluster->host.processors, 0);
}

TEST(TopologyFileTest, WhatIsNoJsonIsNamedByItsLine) {
  EXPECT_THAT(ErrorOf("{\n\"links\": [,]}"), HasSubstr("line 2, column 11"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr(R"(wanted is {"links": [...])"));
}

TEST(TopologyFileTest, FieldsThatCannotBeAreNamed) {
  EXPECT_THAT(ErrorOfLink("7"), HasSubstr("links[1] is number; wanted is {"));
  EXPECT_THAT(ErrorOfLink(R"({"name": "b", "latency_us": 1})"),
              HasSubstr(R"("links[1].gb_per_s" is missing)"));
  const std::string rest = R"(, "name": "b", "latency_us": 1})";
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": 0)" + rest),
              HasSubstr(R"("links[1].gb_per_s" is 0; wanted is a number)"));
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": "1")" + rest),
              HasSubstr(R"("links[1].gb_per_s" is "1"; wanted is a number)"));
  const auto error_of_tasks = [](const char* tasks) {
    return ErrorOf(absl::StrCat(
        R"({"links": [{"name": "a", "latency_us": 1, "gb_per_s": 1, "tasks": )",
        tasks, "}, ", kLink, "]}"));
  };
  EXPECT_THAT(error_of_tasks("1.5"),
              HasSubstr(R"("links[0].tasks" is 1.5; wanted is a whole)"));
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": 1, "fly": 1)" + rest),
              AllOf(HasSubstr(R"(unknown field "links[1].fly"; known: )"),
                    HasSubstr("gb_per_s, latency_us, name, tasks")));
  EXPECT_THAT(error_of_tasks("1000000001"),
              HasSubstr("is 1000000001; wanted is a whole number from 1 to "
                        "1000000000"));
  EXPECT_THAT(
      ErrorOfLink(R"({"name": "a\nb", "latency_us": 1, "gb_per_s": 1})"),
      HasSubstr(R"("links[1].name" is "a\nb"; wanted is a text of one line)"));
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": 1, "tasks": 4)" + rest),
              HasSubstr(R"("links[1].tasks" is 4; wanted is none: the last)"));
  EXPECT_THAT(ErrorOf(absl::StrCat(R"({"links": [)", kLink, ",", kLink, ",",
                                   kLink, "]}")),
              HasSubstr(R"("links[1].tasks" is missing: only the last)"));
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": 5e-324)" + rest),
              HasSubstr("; wanted is a larger number"));
  EXPECT_THAT(
      ErrorOfLink(R"({"gb_per_s": 1e308)" + rest),
      HasSubstr(R"("links[1].gb_per_s" is 1e+308; wanted is a smaller)"));
  EXPECT_THAT(
      ErrorOf(absl::StrCat(R"({"links": [)", kLink, R"(], "message_us": -1})")),
      HasSubstr(R"("message_us" is -1; wanted is a number from 0 on)"));
  EXPECT_THAT(ErrorOf(R"({"links": []})"), HasSubstr("links is empty"));
}

// Regression: error messages were as long as the value.
TEST(TopologyFileTest, ErrorsAreShortWhateverTheFileHas) {
  const std::string name(100'000, '1');
  const std::string text = "\"" + name + "\"";
  for (const std::string& value : {name, text, "[" + name, "\x01" + text}) {
    EXPECT_LT(ErrorOfLink(R"({"name": "b", "latency_us": 1, "gb_per_s": )" +
                          value + "}")
                  .size(),
              500)
        << value.substr(0, 3);
  }
  const std::string link = R"({"name": "b", "latency_us": 1, "gb_per_s": 1, )";
  EXPECT_LT(ErrorOfLink(link + text + ": 1}").size(), 500);
  EXPECT_LT(ErrorOfLink(link + text + ": 1, " + text + ": 1}").size(), 500);
}

TEST(TopologyFileTest, HostsThatCannotBeAreNamed) {
  const auto error = [](const std::string& host) {
    return ErrorOf(
        absl::StrCat(R"({"links": [)", kLink, R"(], "host": )", host, "}"));
  };
  EXPECT_THAT(error("7"), HasSubstr(R"("host" is 7; wanted is {"processors")"));
  EXPECT_THAT(error(R"({"tasks": 2})"),
              HasSubstr(R"("host.processors" is missing)"));
  EXPECT_THAT(error(R"({"processors": 0})"),
              HasSubstr(R"("host.processors" is 0; wanted is a whole)"));
  EXPECT_THAT(error(R"({"processors": 2, "tasks": 0.5})"),
              HasSubstr(R"("host.tasks" is 0.5; wanted is a whole)"));
  EXPECT_THAT(error(R"({"processors": 2, "inline_bytes": -1})"),
              HasSubstr(R"("host.inline_bytes" is -1; wanted is a number)"));
  EXPECT_THAT(error(R"({"processors": 2, "caches": 1})"),
              AllOf(HasSubstr(R"(unknown field "host.caches"; known: )"),
                    HasSubstr("inline_bytes, processors, tasks")));
}

TEST(TopologyFileTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(ReadTopology("not/there.json"),
              ExitsWith(1, HasSubstr("not/there.json")));
}

}  // namespace draw_test
}  // namespace tutti
