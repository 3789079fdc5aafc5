#include "tools/request/schedule_request.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "implementations/two_level/local_then.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace schedule_request_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;

absl::StatusOr<ScheduleRequest> Parse(const ScheduleWords& words) {
  return ParseScheduleRequest(words, CollectiveRegistry::Global(),
                              /*max_ranks=*/100);
}

std::string UsageErrorOf(const ScheduleWords& words) {
  const absl::Status status = Parse(words).status();
  EXPECT_TRUE(IsUsageError(status)) << status;
  return std::string(status.message());
}

TEST(ScheduleRequestTest, HasDefaults) {
  const auto request = Parse({.name = "RingReduce"});
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(TitleOf({.name = "RingReduce"}, *request),
            "RingReduce: all_reduce on 1x8, offsets 0");
  EXPECT_EQ(BytesOf(request->workload), 1 << 20);
}

TEST(ScheduleRequestTest, SubdivisionsAreThoseThatWouldBeChosen) {
  const auto request =
      Parse({.name = "RingReduce", .layout = "2x2", .bytes = "64M"});
  ASSERT_THAT(request, IsOk());
  EXPECT_THAT(request->request.subdiv_offsets, SizeIs(4));
}

TEST(ScheduleRequestTest, CodeThatAScheduleStandsForIsThatSchedule) {
  const auto request = Parse({.name = "LocalThenRing", .layout = "2x4"});
  ASSERT_THAT(request, IsOk());
  EXPECT_THAT(request->shown.note, HasSubstr("passes over memory"));
  EXPECT_EQ(TitleOf({.name = "LocalThenRing"}, *request),
            "LocalThenRing: all_reduce on 2x4, offsets 0");
  EXPECT_EQ(Parse({.name = "RingReduce"})->shown.note, "");
}

TEST(ScheduleRequestTest, WhyThereIsNothingToShowIsTold) {
  CollectiveRegistry registry;
  ASSERT_THAT(
      registry.Register("LocalThenCourier",
                        LocalThenDelegateFactory("Courier", "by courier")),
      IsOk());
  ASSERT_THAT(
      registry.Register("LocalThenNobody", LocalThenFactory<"Nobody">()),
      IsOk());
  const auto error_of = [&](const std::string& name) {
    const absl::Status status =
        ParseScheduleRequest({.name = name}, registry, /*max_ranks=*/100)
            .status();
    EXPECT_TRUE(IsUsageError(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(error_of("LocalThenCourier"),
            "LocalThenCourier has no steps to show: its messages are those of "
            "Courier, which are not known here; these do: none");
  EXPECT_THAT(error_of("LocalThenNobody"), HasSubstr("Nobody\""));
}

TEST(ScheduleRequestTest, WordsThatDoNotGoTogetherAreRefused) {
  EXPECT_THAT(UsageErrorOf({.name = "Fly"}), HasSubstr("unknown algorithm"));
  EXPECT_THAT(UsageErrorOf({.name = "LocalReduce"}),
              HasSubstr("LocalReduce has no steps to show: it is code, not a "
                        "schedule; these do: Barrier, "));
  EXPECT_THAT(UsageErrorOf({.name = "RingReduce", .layout = "101x1"}),
              HasSubstr("at most 100 ranks"));
  EXPECT_THAT(UsageErrorOf({.name = "RingReduce", .ranks = 3, .layout = "2x2"}),
              HasSubstr("--ranks 3 does not fit --layout 2x2, which has 4"));
  EXPECT_THAT(UsageErrorOf({.name = "RingReduce", .bytes = "x"}),
              HasSubstr("--bytes"));
  EXPECT_THAT(UsageErrorOf({.name = "Barrier", .bytes = "1M"}),
              HasSubstr("--bytes does not go with barrier"));
  EXPECT_THAT(Parse({.name = "Barrier"}), IsOk());
}

}  // namespace schedule_request_test
}  // namespace tutti
