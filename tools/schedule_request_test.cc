#include "tools/schedule_request.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/exit_status.h"

namespace tutti {
namespace {

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

TEST(ScheduleRequestTest, WordsThatDoNotGoTogetherAreRefused) {
  EXPECT_THAT(UsageErrorOf({.name = "Fly"}), HasSubstr("unknown algorithm"));
  EXPECT_THAT(UsageErrorOf({.name = "LocalReduce"}),
              HasSubstr("LocalReduce is code, not a schedule"));
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

}  // namespace
}  // namespace tutti
