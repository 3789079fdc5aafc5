#include "tools/draw/schedule_svg.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/proof/symbolic.h"
#include "schedule/step_depth.h"
#include "tutti/schedule.h"

namespace tutti {
namespace schedule_svg_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace schedule_svg_test
}  // namespace tutti
