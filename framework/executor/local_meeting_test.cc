#include "framework/executor/local_meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace local_meeting_test {

using testing::ElementsAre;
using testing::HasSubstr;

// The members of one execution.
class LocalMeetingTest : public testing::Test {
 protected:
  LocalMeetingTest() {
    auto group = std::make_shared<CollGroupParams>();
    group->members.resize(3);
    const auto instance = std::make_shared<const CollInstanceParams>();
    for (int rank = 0; rank < 3; ++rank) {
      params_[rank].group = group;
      params_[rank].instance = instance;
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

TEST_F(LocalMeetingTest, MembersWithDifferentRowsAllFail) {
  for (int rank = 0; rank < 3; ++rank) {
    CollInstanceParams instance = {.key = 7,
                                   .type = CollectiveType::kAllGather,
                                   .rows = {1, 2, rank == 1 ? 4 : 3},
                                   .rows_are_given = true};
    params_[rank].instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(Join(rank).empty());
  for (const auto& ended : ended_) {
    EXPECT_THAT(ended, ElementsAre(StatusIs(
                           absl::StatusCode::kInvalidArgument,
                           HasSubstr("instance 7: rank 0 says that rank 2 has "
                                     "3 rows, rank 1 that it has 4"))));
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

// Execution of many members, which are only counted.
class MeetingRound {
 public:
  explicit MeetingRound(int num_members) : contexts_(num_members) {
    auto group = std::make_shared<CollGroupParams>();
    group->members.resize(num_members);
    params_.group = std::move(group);
    params_.instance = std::make_shared<const CollInstanceParams>();
    params_.task = std::make_shared<const CollTaskParams>(
        CollTaskParams{.num_local = num_members});
    for (CollectiveContext& context : contexts_) {
      context.params = &params_;
      context.execution = &execution_;
    }
  }

  void Join(int rank) {
    LocalMeeting& meeting = execution_.Shared<LocalMeeting>();
    const auto all =
        meeting.JoinAt(static_cast<size_t>(rank), contexts_.size(),
                       contexts_[rank], [this](absl::Status status) {
                         ++(status.ok() ? num_ok_ : num_failed_);
                       });
    if (!all.empty()) meeting.Adjourn(absl::OkStatus());
  }

  // Fails the execution after `num_looks` reads of a counter.
  void FailAfter(int num_looks) {
    for (int i = 0; i < num_looks; ++i) num_ok_.load();
    execution_.cancellation.Cancel(absl::UnavailableError("lost"));
  }

  // Returns true if each member has ended once, and all with the same result.
  bool HasEndedWell() const {
    const int size = static_cast<int>(contexts_.size());
    return (num_ok_ == size && num_failed_ == 0) ||
           (num_ok_ == 0 && num_failed_ == size);
  }

 private:
  Execution execution_{InstanceId(), 1};
  CollectiveParams params_;
  std::vector<CollectiveContext> contexts_;
  std::atomic<int> num_ok_{0};
  std::atomic<int> num_failed_{0};
};

TEST(LocalMeetingConcurrencyTest, AFailureMayMeetAnybodyWhoArrives) {
  constexpr int kRounds = 5000;
  std::deque<MeetingRound> rounds;
  for (int i = 0; i < kRounds; ++i) rounds.emplace_back(/*num_members=*/3);
  std::barrier begin(3);
  std::thread first([&] {
    for (MeetingRound& round : rounds) {
      begin.arrive_and_wait();
      round.Join(0);
    }
  });
  std::thread others([&] {
    for (MeetingRound& round : rounds) {
      begin.arrive_and_wait();
      round.Join(1);
      round.Join(2);
    }
  });
  for (size_t i = 0; i < rounds.size(); ++i) {
    begin.arrive_and_wait();
    rounds[i].FailAfter(static_cast<int>(i % 500));
  }
  first.join();
  others.join();
  for (const MeetingRound& round : rounds) EXPECT_TRUE(round.HasEndedWell());
}

TEST(LocalMeetingConcurrencyTest, AFailureMayMeetTheEnd) {
  constexpr int kRounds = 3000;
  constexpr int kMembers = 200;
  std::deque<MeetingRound> rounds;
  for (int i = 0; i < kRounds; ++i) {
    rounds.emplace_back(kMembers);
    for (int rank = 1; rank < kMembers; ++rank) rounds.back().Join(rank);
  }
  std::barrier begin(2);
  std::thread last([&] {
    for (MeetingRound& round : rounds) {
      begin.arrive_and_wait();
      round.Join(0);
    }
  });
  for (size_t i = 0; i < rounds.size(); ++i) {
    begin.arrive_and_wait();
    rounds[i].FailAfter(static_cast<int>(i % 500));
  }
  last.join();
  for (const MeetingRound& round : rounds) EXPECT_TRUE(round.HasEndedWell());
}

}  // namespace local_meeting_test
}  // namespace tutti
