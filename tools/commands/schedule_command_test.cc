#include "tools/commands/schedule_command.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/request/wrong_algorithms.h"
#include "tutti/schedule.h"

namespace tutti {
namespace schedule_command_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

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

  std::string UsageErrorOf(const ScheduleOptions& options) {
    const absl::Status status = Show(options);
    EXPECT_EQ(ExitStatus(status), 2) << status;
    EXPECT_THAT(out_.str(), IsEmpty());
    return std::string(status.message());
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

TEST_F(ScheduleCommandTest, WhatHasNoStepsToShowIsTold) {
  EXPECT_THAT(UsageErrorOf({.words = {.name = "Refuser"}}),
              AllOf(HasSubstr("it is code, not a schedule; these do: "
                              "DoubleTrees, LocalThenRing, Loser, "),
                    HasSubstr("Loser, Permute, Rings, Trees")));
  EXPECT_THAT(UsageErrorOf({.words = {.name = "Fly"}}),
              HasSubstr("unknown algorithm"));
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

TEST_F(ScheduleCommandTest, CollectivesOfOtherAlgorithmsAreRefused) {
  EXPECT_THAT(
      UsageErrorOf({.words = {.name = "Permute",
                              .collective = {.collective = "barrier"}}}),
      HasSubstr("Permute does not do barrier; it does permute"));
  EXPECT_THAT(UsageErrorOf({.words = {.name = "Permute",
                                      .collective = {.collective = "fly"}}}),
              HasSubstr("fly"));
}

TEST_F(ScheduleCommandTest, RanksThatDoNotExistAreRefused) {
  EXPECT_THAT(UsageErrorOf({.words = {.name = "Trees",
                                      .ranks = 4,
                                      .collective = {.collective = "reduce",
                                                     .root = 4}}}),
              HasSubstr("--root 4 is no rank of a group of 4"));
  EXPECT_THAT(
      UsageErrorOf({.words = {.name = "Trees", .collective = {.root = 0}}}),
      HasSubstr("--root does not go with all_reduce"));
  EXPECT_THAT(
      UsageErrorOf({.words = {.name = "Trees", .ranks = 4, .layout = "2x4"}}),
      HasSubstr("--ranks 4 does not fit --layout 2x4, which has 8"));
}

TEST_F(ScheduleCommandTest, GroupsHaveALimit) {
  EXPECT_THAT(UsageErrorOf({.words = {.name = "Trees", .layout = "1025x1"}}),
              HasSubstr("at most 1024 ranks"));
  EXPECT_THAT(
      UsageErrorOf({.words = {.name = "Trees", .ranks = 65}, .svg = "x.svg"}),
      HasSubstr("--svg draws at most 64 ranks, not 65"));
  EXPECT_THAT(Show({.words = {.name = "Trees", .layout = "512x2"}}), IsOk());
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

TEST_F(ScheduleCommandTest, OneFormatAtATime) {
  EXPECT_THAT(UsageErrorOf(
                  {.words = {.name = "Trees"}, .text = true, .goal = "x.goal"}),
              HasSubstr("one of --text, --svg and --goal"));
}

TEST_F(ScheduleCommandTest, PlansThatDoNotFitTogetherAreShownAsText) {
  EXPECT_THAT(Show({.words = {.name = "Loser", .ranks = 2}}), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("send input[0] to 1"));
  for (const ScheduleOptions& options :
       {ScheduleOptions{.words = {.name = "Loser", .ranks = 2}, .svg = "x.svg"},
        ScheduleOptions{.words = {.name = "Loser", .ranks = 2},
                        .goal = "x.goal"}}) {
    const absl::Status status = Show(options);
    EXPECT_EQ(ExitStatus(status), 1);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0, 0.0"));
  }
}

}  // namespace schedule_command_test
}  // namespace tutti
