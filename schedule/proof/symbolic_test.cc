#include "schedule/proof/symbolic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedule/proof/written_expression.h"
#include "tutti/schedule.h"

namespace tutti {
namespace symbolic_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Returns schedules of all ranks. `build` adds the lanes of a rank.
template <typename Build>
std::vector<Schedule> ForRanks(int num_ranks, Build build) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < num_ranks; ++rank) {
    ScheduleBuilder builder(/*num_chunks=*/1);
    build(rank, builder);
    schedules.push_back(builder.Build());
  }
  return schedules;
}

absl::StatusOr<GroupPlan> AllReduce(const std::vector<Schedule>& schedules,
                                    std::vector<bool> in_place = {}) {
  return GroupPlan::Create({.type = CollectiveType::kAllReduce,
                            .num_ranks = static_cast<int>(schedules.size()),
                            .num_chunks = 1,
                            .in_place = std::move(in_place)},
                           schedules);
}

std::string ErrorOf(const std::vector<Schedule>& schedules) {
  const auto plan = AllReduce(schedules);
  if (!plan.ok()) return absl::StrCat("no plan: ", plan.status().message());
  const absl::Status error = RunSymbolically(*plan).status();
  EXPECT_EQ(CompletionOrder(*plan).status(), error);
  return std::string(error.message());
}

TEST(SymbolicTest, AStepActsOnEachChunkOfItsRange) {
  std::vector<Schedule> schedules;
  for (const int rank : {0, 1}) {
    ScheduleBuilder builder(/*num_chunks=*/3);
    auto lane = builder.AddLane();
    if (rank == 1) lane.Send(0, 0, Input(1, 2));
    if (rank == 0) {
      lane.Recv(1, 0, Scratch(1, 0, 2));
      lane.ReduceAndFinish(Data(1, 2), Input(1, 2), Scratch(1, 0, 2));
    }
    schedules.push_back(builder.Build());
  }
  const auto plan =
      GroupPlan::Create({.num_ranks = 2, .num_chunks = 3}, schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto run = RunSymbolically(*plan);
  ASSERT_TRUE(run.ok()) << run.status();
  Evaluator<WrittenExpression> written(run->expressions, {});
  EXPECT_EQ(run->outputs[0][0], kUndefined);
  EXPECT_EQ(written(run->outputs[0][1]), "f(0.1+1.1)");
  EXPECT_EQ(written(run->outputs[0][2]), "f(0.2+1.2)");
}

TEST(SymbolicTest, OutputsKeepTheOrderOfSummation) {
  // Rank 0 sums 2 + (0 + 1).
  const auto plan = AllReduce(ForRanks(3, [](int rank, auto& builder) {
    auto lane = builder.AddLane();
    if (rank > 0) {
      lane.Send(0, 0, Input(0));
      return;
    }
    lane.Recv(1, 0, Scratch(0));
    lane.Reduce(Data(0), Input(0), Scratch(0));
    lane.Recv(2, 0, Scratch(0, 1));
    lane.ReduceAndFinish(Data(0), Scratch(0, 1), Data(0));
  }));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto run = RunSymbolically(*plan);
  ASSERT_TRUE(run.ok()) << run.status();
  Evaluator<WrittenExpression> written(run->expressions, {});
  EXPECT_EQ(written(run->outputs[0][0]), "f(2.0+(0.0+1.0))");
  EXPECT_EQ(run->outputs[1][0], kUndefined);
}

TEST(SymbolicTest, AReductionOfManyIsOne) {
  const auto plan = AllReduce(ForRanks(3, [](int rank, auto& builder) {
    auto lane = builder.AddLane();
    if (rank > 0) {
      lane.Send(0, 0, Input(0));
      return;
    }
    const StepRef second = builder.AddLane().Recv(2, 0, Scratch(0, 2));
    lane.Recv(1, 0, Scratch(0, 1));
    lane.Wait(second);
    lane.ReduceManyAndFinish(Data(0), {Scratch(0, 2), Input(0), Scratch(0, 1)});
  }));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto run = RunSymbolically(*plan);
  ASSERT_TRUE(run.ok()) << run.status();
  Evaluator<WrittenExpression> written(run->expressions, {});
  EXPECT_EQ(written(run->outputs[0][0]), "f(2.0+0.0+1.0)");
}

TEST(SymbolicTest, InPlaceTheOutputBeginsAsTheInput) {
  const auto nothing = ForRanks(2, [](int, auto&) {});
  const auto plan = AllReduce(nothing, /*in_place=*/{false, true});
  ASSERT_TRUE(plan.ok());
  const auto run = RunSymbolically(*plan);
  ASSERT_TRUE(run.ok());
  Evaluator<WrittenExpression> written(run->expressions, {});
  EXPECT_EQ(run->outputs[0][0], kUndefined);
  EXPECT_EQ(written(run->outputs[1][0]), "1.0");
}

TEST(SymbolicTest, StepsCompleteAfterAllTheyWaitFor) {
  const auto plan = AllReduce(ForRanks(2, [](int rank, auto& builder) {
    auto first = builder.AddLane();
    auto second = builder.AddLane();
    const StepRef copied = second.Copy(Scratch(0), Input(0));
    if (rank == 0) first.Send(1, 0, Scratch(0), copied);
    if (rank == 1) first.Recv(0, 0, Data(0), copied);
  }));
  ASSERT_TRUE(plan.ok());
  const auto run = RunSymbolically(*plan);
  ASSERT_TRUE(run.ok());
  const std::vector<int>& order = run->completion_order;
  EXPECT_EQ(*CompletionOrder(*plan), order);
  ASSERT_EQ(order.size(), 4u);
  const auto index = [&](int step) {
    return std::find(order.begin(), order.end(), step) - order.begin();
  };
  EXPECT_LT(index(1), index(0));  // Rank 0: copy, send.
  EXPECT_LT(index(3), index(0));  // The receive waits for the copy.
  EXPECT_LT(index(3), index(2));
}

TEST(SymbolicTest, TheOrderAloneTakesNothingForRanksTimesChunks) {
  const int n = 1 << 17;
  const std::vector<Schedule> schedules(n, {.num_chunks = n});
  const auto plan = GroupPlan::Create(
      {.type = CollectiveType::kGather, .num_ranks = n, .num_chunks = n},
      schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(*CompletionOrder(*plan), std::vector<int>{});
}

TEST(SymbolicTest, ReadOfWhatWasNeverWrittenNamesTheStep) {
  EXPECT_EQ(ErrorOf(ForRanks(2,
                             [](int rank, auto& builder) {
                               auto lane = builder.AddLane();
                               if (rank == 0) lane.Recv(1, 0, Data(0));
                               if (rank == 1) lane.Send(0, 0, Scratch(0, 3));
                             })),
            "rank 1, 0.0 (send scratch[0].3 to 0, tag 0) reads scratch[0].3, "
            "to which nothing was written");
}

TEST(SymbolicTest, DeadlockNamesTheCircleAndNothingElse) {
  // Ranks 0 and 1 both send first; rank 2 waits for rank 0.
  const std::string error = ErrorOf(ForRanks(3, [](int rank, auto& builder) {
    auto lane = builder.AddLane();
    if (rank == 2) {
      lane.Recv(0, 1, Data(0));
      return;
    }
    lane.Send(1 - rank, 0, Input(0));
    lane.Recv(1 - rank, 0, Data(0));
    if (rank == 0) lane.Send(2, 1, Data(0));
  }));
  EXPECT_EQ(error,
            "deadlock: rank 0, 0.0 (send input[0] to 1, tag 0) waits for rank "
            "1, 0.1 (recv data[0] from 0, tag 0); rank 1, 0.0 (send input[0] "
            "to 0, tag 0) waits for rank 0, 0.1 (recv data[0] from 1, tag 0)");
}

TEST(SymbolicTest, DeadlockWithinARankIsFound) {
  const std::string error = ErrorOf(ForRanks(1, [](int, auto& builder) {
    builder.AddLane().Copy(Data(0), Input(0), {.lane = 1, .step = 0});
    builder.AddLane().Copy(Scratch(0), Input(0), {.lane = 0, .step = 0});
  }));
  EXPECT_THAT(error, AllOf(HasSubstr("deadlock: rank 0, 0.0 (data[0] = "
                                     "input[0], after 1.0) waits for rank 0, "
                                     "1.0"),
                           HasSubstr("; rank 0, 1.0")));
}

TEST(SymbolicTest, WaitingForALaterStepOfTheSameLaneIsADeadlock) {
  const std::string error = ErrorOf(ForRanks(1, [](int, auto& builder) {
    auto lane = builder.AddLane();
    lane.Copy(Scratch(0), Input(0), {.lane = 0, .step = 1});
    lane.Copy(Data(0), Input(0));
  }));
  EXPECT_THAT(error, HasSubstr("deadlock: rank 0, 0.0 (scratch[0] = input[0], "
                               "after 0.1) waits for rank 0, 0.1"));
}

TEST(SymbolicTest, LongCirclesAreShownInPart) {
  const std::string error = ErrorOf(ForRanks(50, [](int rank, auto& builder) {
    auto lane = builder.AddLane();
    lane.Send((rank + 1) % 50, 0, Input(0));
    lane.Recv((rank + 49) % 50, 0, Data(0));
  }));
  EXPECT_THAT(error, AllOf(HasSubstr("rank 5, 0.0"), HasSubstr("and 44 more"),
                           Not(HasSubstr("rank 8, 0.0"))));
}

}  // namespace symbolic_test
}  // namespace tutti
