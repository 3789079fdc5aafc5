#include "implementations/local_meeting.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "framework/execution.h"
#include "framework/params.h"

namespace tutti {
namespace {

// The members of one execution.
class LocalMeetingTest : public testing::Test {
 protected:
  LocalMeetingTest() {
    auto group = std::make_shared<CollGroupParams>();
    group->members.resize(3);
    for (int rank = 0; rank < 3; ++rank) {
      auto params = std::make_shared<CollectiveParams>();
      params->group = group;
      params->default_rank = rank;
      contexts_[rank].params = params;
      contexts_[rank].execution = &execution_;
    }
  }

  std::vector<Attendee> Join(int rank) {
    return execution_.Shared<LocalMeeting>()->Join(
        contexts_[rank],
        [this, rank](absl::Status status) { ended_[rank].push_back(status); });
  }

  Execution execution_{InstanceId(), 1};
  CollectiveContext contexts_[3];
  std::vector<absl::Status> ended_[3];
};

TEST_F(LocalMeetingTest, TheLastToArriveGetsAllInRankOrder) {
  EXPECT_TRUE(Join(2).empty());
  EXPECT_TRUE(Join(0).empty());
  std::vector<Attendee> all = Join(1);
  ASSERT_EQ(all.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(all[rank].context, &contexts_[rank]);
    EXPECT_TRUE(ended_[rank].empty());
    std::move(all[rank].done)(absl::OkStatus());
    EXPECT_EQ(ended_[rank].size(), 1u);
  }
}

TEST_F(LocalMeetingTest, AFailureEndsThoseThatAreHereAndThoseThatCome) {
  const absl::Status lost = absl::UnavailableError("lost");
  Join(2);
  Join(0);
  execution_.cancellation.Cancel(lost);
  EXPECT_EQ(ended_[0], std::vector<absl::Status>{lost});
  EXPECT_EQ(ended_[2], std::vector<absl::Status>{lost});
  EXPECT_TRUE(Join(1).empty());
  EXPECT_EQ(ended_[1], std::vector<absl::Status>{lost});
}

TEST_F(LocalMeetingTest, WhoComesAfterTheFailureIsEndedAtOnce) {
  const absl::Status lost = absl::UnavailableError("lost");
  execution_.cancellation.Cancel(lost);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(Join(rank).empty());
    EXPECT_EQ(ended_[rank], std::vector<absl::Status>{lost});
  }
}

TEST_F(LocalMeetingTest, AFailureAfterAllHaveComeIsTheirs) {
  Join(0);
  Join(1);
  std::vector<Attendee> all = Join(2);
  execution_.cancellation.Cancel(absl::UnavailableError("late"));
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(ended_[rank].empty());
}

}  // namespace
}  // namespace tutti
