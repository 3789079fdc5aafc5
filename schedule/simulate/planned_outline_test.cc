#include "schedule/simulate/planned_outline.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/schedule.h"

namespace tutti {
namespace planned_outline_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Plan in which rank 0 sends two chunks to rank 1. Rank 1 adds both, one after
// the other, and sends its sum to rank 2.
Schedule Plan(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/2);
  for (int chunk : {0, 1}) {
    auto lane = builder.AddLane();
    if (request.rank == 0) lane.Send(1, chunk, Input(chunk));
    if (request.rank == 1) {
      lane.Recv(0, chunk, Scratch(chunk));
      lane.Reduce(Data(chunk), Scratch(chunk), Input(chunk));
      lane.Send(2, chunk, Data(chunk));
    }
    if (request.rank == 2) {
      lane.Recv(1, chunk, Data(chunk));
      lane.Copy(Scratch(chunk, 1), Data(chunk));
    }
  }
  return builder.Build();
}

using Transfer = OutlineRound::Transfer;
using Work = OutlineRound::Work;

// Outline of Plan() for 3 or more ranks, with chosen errors.
class PlanOutline : public Outline {
 public:
  PlanOutline(const Size& size, int64_t reduced, int64_t num_results = 2)
      : Outline(size), reduced_(reduced), num_results_(num_results) {}
  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    const int rank = round - 1;
    if (round > 0 && first <= rank && rank < end) {
      into->transfers.push_back({rank, rank + 1, 2});
    }
    if (round == 0 || first > round || round >= end) return;
    into->work.push_back(
        {round, round == 1 ? reduced_ : 0, round == 2 ? 2 : 0});
  }
  int64_t NumResults(int round, int rank) const override {
    return round > 0 && round == rank ? num_results_ : 0;
  }

 private:
  const int64_t reduced_;
  const int64_t num_results_;
};

constexpr Outline::Size kSize = {.num_ranks = 3,
                                 .num_chunks = 2,
                                 .num_rounds = 3,
                                 .scratch_chunks = 2,
                                 .period = 3,
                                 .busy_ranks = 2,
                                 .most_transfers = 1};

using MadeOutline = absl::StatusOr<std::unique_ptr<const Outline>>;

MadeOutline Right(const PlanRequest& /*request*/) {
  return std::make_unique<PlanOutline>(kSize, 2);
}
MadeOutline WrongWork(const PlanRequest& /*request*/) {
  return std::make_unique<PlanOutline>(kSize, 3);
}
MadeOutline WrongPeriod(const PlanRequest& /*request*/) {
  Outline::Size size = kSize;
  size.period = 1;
  return std::make_unique<PlanOutline>(size, 2);
}
MadeOutline WrongRing(const PlanRequest& /*request*/) {
  Outline::Size size = kSize;
  size.is_ring = true;
  return std::make_unique<PlanOutline>(size, 2);
}
MadeOutline TooBusy(const PlanRequest& /*request*/) {
  Outline::Size size = kSize;
  size.busy_ranks = 1;
  return std::make_unique<PlanOutline>(size, 2);
}
MadeOutline WrongSize(const PlanRequest& /*request*/) {
  Outline::Size size = kSize;
  size.scratch_chunks = 0;
  return std::make_unique<PlanOutline>(size, 2);
}

MadeOutline WrongResults(const PlanRequest& /*request*/) {
  return std::make_unique<PlanOutline>(kSize, 2, 1);
}
MadeOutline None(const PlanRequest& /*request*/) {
  return absl::UnimplementedError("it is a test");
}

Algorithm With(MadeOutline (*outline)(const PlanRequest&)) {
  return {.traits = {.collectives = {CollectiveType::kAllReduce}},
          .plan = Plan,
          .outline = outline};
}

VerifyCase ThreeRanks() { return {.layout = GroupLayout::Uniform(1, 3)}; }

TEST(PlannedOutlineTest, HasTheRoundsOfThePlans) {
  const auto outline = PlannedOutline(With(nullptr), ThreeRanks(), 100);
  ASSERT_THAT(outline, IsOk());
  EXPECT_EQ((*outline)->size(), kSize);
  OutlineRound round;
  (*outline)->Append(0, 0, 3, &round);
  EXPECT_THAT(round.transfers, IsEmpty());
  (*outline)->Append(1, 0, 3, &round);
  EXPECT_THAT(round.transfers, ElementsAre(Transfer{0, 1, 2}));
  EXPECT_THAT(round.work, ElementsAre(Work{1, 2, 0}));
  round.Clear();
  (*outline)->Append(2, 0, 3, &round);
  EXPECT_THAT(round.transfers, ElementsAre(Transfer{1, 2, 2}));
  EXPECT_THAT(round.work, ElementsAre(Work{2, 0, 2}));
}

TEST(PlannedOutlineTest, ResultsAreWhatIsLastWrittenToTheOutput) {
  const auto outline = PlannedOutline(With(nullptr), ThreeRanks(), 100);
  ASSERT_THAT(outline, IsOk());
  std::vector<int64_t> by_round_and_rank;
  for (const int round : {0, 1, 2}) {
    for (const int rank : {0, 1, 2}) {
      by_round_and_rank.push_back((*outline)->NumResults(round, rank));
    }
  }
  EXPECT_THAT(by_round_and_rank, ElementsAre(0, 0, 0, 0, 2, 0, 0, 0, 2));
}

TEST(PlannedOutlineTest, EachOperandAfterTheFirstIsReducedAndAWaitIsNoWork) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kAllReduce}},
      .plan = [](const PlanRequest& request) {
        ScheduleBuilder builder(/*num_chunks=*/1);
        if (request.rank > 0) {
          builder.AddLane().Send(0, /*tag=*/0, Input(0));
          return builder.Build();
        }
        auto lane = builder.AddLane();
        lane.Wait(builder.AddLane().Recv(1, /*tag=*/0, Scratch(0, 1)));
        lane.Wait(builder.AddLane().Recv(2, /*tag=*/0, Scratch(0, 2)));
        lane.ReduceMany(Data(0), {Input(0), Scratch(0, 1), Scratch(0, 2)});
        return builder.Build();
      }};
  const auto outline = PlannedOutline(algorithm, ThreeRanks(), 100);
  ASSERT_THAT(outline, IsOk());
  OutlineRound round;
  (*outline)->Append(1, 0, 3, &round);
  EXPECT_THAT(round.work, ElementsAre(Work{0, 2, 0}));
}

TEST(PlannedOutlineTest, ARangeIsOneMessage) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kAllReduce}},
      .plan = [](const PlanRequest& request) {
        ScheduleBuilder builder(/*num_chunks=*/4);
        auto lane = builder.AddLane();
        if (request.rank == 0) {
          lane.Send(1, /*tag=*/0, Input(1, 3));
          lane.Send(1, /*tag=*/1, Input(0));
        } else if (request.rank == 1) {
          lane.Recv(0, /*tag=*/0, Scratch(1, 0, 3));
          lane.Reduce(Data(1, 3), Scratch(1, 0, 3), Input(1, 3));
          builder.AddLane().Recv(0, /*tag=*/1, Scratch(0));
        }
        return builder.Build();
      }};
  const auto outline = PlannedOutline(algorithm, ThreeRanks(), 100);
  ASSERT_THAT(outline, IsOk());
  OutlineRound round;
  (*outline)->Append(1, 0, 3, &round);
  EXPECT_THAT(round.transfers, ElementsAre(Transfer{0, 1, 3, /*messages=*/1}));
  EXPECT_THAT(round.work, ElementsAre(Work{1, 3, 0}));
  EXPECT_EQ((*outline)->size().scratch_chunks, 1);
  EXPECT_EQ((*outline)->NumResults(1, 1), 3);
}

TEST(PlannedOutlineTest, AppendsTheRanksAskedFor) {
  const auto outline = PlannedOutline(With(nullptr), ThreeRanks(), 100);
  ASSERT_THAT(outline, IsOk());
  OutlineRound round;
  (*outline)->Append(1, 1, 3, &round);
  EXPECT_THAT(round.transfers, IsEmpty());
  EXPECT_THAT(round.work, ElementsAre(Work{1, 2, 0}));
  (*outline)->Append(1, 2, 2, &round);
  EXPECT_THAT(round.work, ElementsAre(Work{1, 2, 0}));
}

TEST(PlannedOutlineTest, TooManyStepsAreRefused) {
  EXPECT_THAT(PlannedOutline(With(nullptr), ThreeRanks(), 12), IsOk());
  const auto outline = PlannedOutline(With(nullptr), ThreeRanks(), 11);
  EXPECT_EQ(outline.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(outline.status().message()),
              HasSubstr("ranks 0 to 2 of 3 have 12 steps; wanted are at most "
                        "11 in all"));
}

TEST(OutlineOfTest, IsTheAlgorithmsOwnIfItHasOne) {
  EXPECT_THAT(OutlineOf(With(Right), ThreeRanks(), 0), IsOk());
  EXPECT_THAT(OutlineOf(With(nullptr), ThreeRanks(), 100), IsOk());
  VerifyCase barrier = ThreeRanks();
  barrier.type = CollectiveType::kBarrier;
  EXPECT_EQ(OutlineOf(With(Right), barrier, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(OutlineOfTest, WithoutOneItIsThatOfThePlansIfTheyAreNotTooLarge) {
  EXPECT_THAT(OutlineOf(With(None), ThreeRanks(), 12), IsOk());
  EXPECT_THAT(OutlineOf(With(None), ThreeRanks(), 11).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("wanted are at most 11 in all, for there is "
                                 "no outline: it is a test")));
}

TEST(CheckOutlineTest, FindsWhatDiffersFromThePlans) {
  const auto check = [](auto outline) {
    return std::string(CheckOutline(With(outline), ThreeRanks()).message());
  };
  EXPECT_EQ(check(Right), "");
  EXPECT_THAT(check(WrongWork), HasSubstr("differs in round 1"));
  EXPECT_THAT(check(WrongPeriod), HasSubstr("no period of 1 at rank 0"));
  EXPECT_THAT(check(WrongRing), HasSubstr("is no ring in round 1"));
  EXPECT_THAT(check(TooBusy), HasSubstr("more than 1 busy ranks in round 1"));
  EXPECT_THAT(check(WrongResults), HasSubstr("other results of rank 1"));
  EXPECT_THAT(check(WrongSize), HasSubstr("another size"));
}

// Outline in which rank 0 sends to two ranks, but claims one transfer.
class TooFewTransfers : public Outline {
 public:
  TooFewTransfers()
      : Outline({.num_ranks = 3,
                 .num_rounds = 2,
                 .period = 3,
                 .most_transfers = 1}) {}
  void Append(int round, int first, int /*end*/,
              OutlineRound* into) const override {
    if (round == 0 || first > 0) return;
    into->transfers = {{0, 1, 1}, {0, 2, 1}};
  }
  int64_t NumResults(int round, int rank) const override {
    return round > 0 && rank > 0 ? 1 : 0;
  }
};

TEST(CheckOutlineTest, FindsARoundThatHasMoreTransfers) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kAllReduce}},
      .plan =
          [](const PlanRequest& request) {
            ScheduleBuilder builder(/*num_chunks=*/1);
            if (request.rank > 0) {
              builder.AddLane().Recv(0, /*tag=*/0, Data(0));
              return builder.Build();
            }
            for (const int to : {1, 2}) {
              builder.AddLane().Send(to, /*tag=*/0, Input(0));
            }
            return builder.Build();
          },
      .outline = [](const PlanRequest&) -> MadeOutline {
        return std::make_unique<TooFewTransfers>();
      }};
  EXPECT_THAT(std::string(CheckOutline(algorithm, ThreeRanks()).message()),
              HasSubstr("more than 1 transfers in round 1"));
}

}  // namespace planned_outline_test
}  // namespace tutti
