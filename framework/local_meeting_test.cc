#include "framework/local_meeting.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <utility>
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
      params_[rank].group = group;
      params_[rank].default_rank = rank;
      params_[rank].task = std::make_shared<const CollTaskParams>(
          CollTaskParams{.is_local = {true, true, true}, .num_local = 3});
      contexts_[rank].params = &params_[rank];
      contexts_[rank].execution = &execution_;
    }
  }

  absl::Span<const Attendee> Join(int rank) {
    return execution_.Shared<LocalMeeting>().Join(
        contexts_[rank],
        [this, rank](absl::Status status) { ended_[rank].push_back(status); });
  }

  void Adjourn(absl::Status status) {
    execution_.Shared<LocalMeeting>().Adjourn(std::move(status));
  }

  Execution execution_{InstanceId(), 1};
  CollectiveParams params_[3];
  CollectiveContext contexts_[3];
  std::vector<absl::Status> ended_[3];
};

TEST_F(LocalMeetingTest, TheLastToArriveGetsAllInRankOrder) {
  EXPECT_TRUE(Join(2).empty());
  EXPECT_TRUE(Join(0).empty());
  const auto all = Join(1);
  ASSERT_EQ(all.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(all[rank].context, &contexts_[rank]);
    EXPECT_TRUE(ended_[rank].empty());
  }
  Adjourn(absl::OkStatus());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ended_[rank], std::vector<absl::Status>{absl::OkStatus()});
  }
}

TEST_F(LocalMeetingTest, WaitsForTheMembersOfThisProcessAlone) {
  for (CollectiveParams& params : params_) {
    params.task = std::make_shared<const CollTaskParams>(
        CollTaskParams{.is_local = {false, true, true}, .num_local = 2});
  }
  EXPECT_TRUE(Join(2).empty());
  const auto both = Join(1);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].context, &contexts_[1]);
  EXPECT_EQ(both[1].context, &contexts_[2]);
  Adjourn(absl::OkStatus());
  EXPECT_TRUE(ended_[0].empty());
}

TEST_F(LocalMeetingTest, ServesOneExecutionAfterAnother) {
  for (size_t round = 1; round <= 3; ++round) {
    EXPECT_TRUE(Join(2).empty());
    EXPECT_TRUE(Join(0).empty());
    ASSERT_EQ(Join(1).size(), 3u);
    Adjourn(absl::OkStatus());
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ended_[rank].size(), round);
    }
  }
  Join(0);
  execution_.cancellation.Cancel(absl::UnavailableError("lost"));
  EXPECT_EQ(ended_[0].back(), absl::UnavailableError("lost"));
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
  EXPECT_EQ(Join(2).size(), 3u);
  execution_.cancellation.Cancel(absl::UnavailableError("late"));
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(ended_[rank].empty());
}

// Whatever meets whatever: each member ends once, and all of them alike.
TEST(LocalMeetingConcurrencyTest, AFailureMayMeetTheLastToArrive) {
  constexpr int kRounds = 3000;
  constexpr int kMembers = 3;
  struct Round {
    Execution execution{InstanceId(), 1};
    CollectiveContext contexts[kMembers];
    std::atomic<int> num_ok{0};
    std::atomic<int> num_failed{0};
  };
  std::vector<Round> rounds(kRounds);
  const auto join = [](Round& round, int rank) {
    LocalMeeting& meeting = round.execution.Shared<LocalMeeting>();
    round.contexts[rank].execution = &round.execution;
    const auto all = meeting.JoinAt(
        rank, kMembers, round.contexts[rank], [&round](absl::Status status) {
          ++(status.ok() ? round.num_ok : round.num_failed);
        });
    if (!all.empty()) meeting.Adjourn(absl::OkStatus());
  };
  std::barrier begin(kMembers);
  std::thread first([&] {
    for (Round& round : rounds) {
      begin.arrive_and_wait();
      join(round, 0);
    }
  });
  std::thread others([&] {
    for (Round& round : rounds) {
      begin.arrive_and_wait();
      join(round, 1);
      join(round, 2);
    }
  });
  for (Round& round : rounds) {
    begin.arrive_and_wait();
    round.execution.cancellation.Cancel(absl::UnavailableError("lost"));
  }
  first.join();
  others.join();
  for (const Round& round : rounds) {
    EXPECT_EQ(round.num_ok + round.num_failed, kMembers);
    EXPECT_TRUE(round.num_ok == 0 || round.num_failed == 0);
  }
}

}  // namespace
}  // namespace tutti
