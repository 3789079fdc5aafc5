#include "schedule/proof/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "schedule/proof/expression.h"
#include "schedule/proof/expression_testing.h"
#include "schedule/proof/races.h"
#include "schedule/proof/standard_cases.h"
#include "schedule/proof/symbolic.h"
#include "tutti/schedule.h"

namespace tutti {
namespace verifier_test {

using enum CollectiveType;
using ::testing::_;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// --- expression --------------------------------------------------------------

struct Sum {
  int* reductions;
  int64_t Input(int rank, int) { return rank; }
  int64_t Reduce(absl::Span<const int64_t* const> operands) {
    ++*reductions;
    int64_t sum = 0;
    for (const int64_t* operand : operands) sum += *operand;
    return sum;
  }
  int64_t Finish(int64_t operand) { return -operand; }
};

TEST(ExpressionTest, EvaluationKeepsOrderAndGrouping) {
  ExpressionGraph graph;
  const ExpressionId pair =
      graph.Reduce({graph.Input(2, 5), graph.Input(0, 5)});
  const ExpressionId all =
      graph.Finish(graph.Reduce({graph.Input(1, 5), pair}));
  Evaluator<WrittenExpression> written(graph, {});
  EXPECT_EQ(written(all), "f(1.5+(2.5+0.5))");
  EXPECT_EQ(written(pair), "(2.5+0.5)");
}

TEST(ExpressionTest, AReductionHasAnyNumberOfOperands) {
  ExpressionGraph graph;
  const ExpressionId a = graph.Input(0, 0);
  const ExpressionId b = graph.Input(1, 0);
  const ExpressionId finished = graph.Finish(graph.Input(2, 0));
  const ExpressionId all = graph.Reduce({b, a, finished, b});
  EXPECT_EQ(Evaluator<WrittenExpression>(graph, {})(all), "(1.0+0.0+f2.0+1.0)");
  EXPECT_TRUE(graph[all].has_finish);
  EXPECT_EQ(graph.Leaves(all, 10).size(), 4);
}

TEST(ExpressionTest, SharedOperandsAreEvaluatedOnce) {
  ExpressionGraph graph;
  ExpressionId doubled = graph.Input(1, 0);
  for (int i = 0; i < 60; ++i) doubled = graph.Reduce({doubled, doubled});
  int reductions = 0;
  Evaluator<Sum> sum(graph, {&reductions});
  EXPECT_EQ(sum(doubled), int64_t{1} << 60);
  EXPECT_EQ(sum(doubled), int64_t{1} << 60);
  EXPECT_EQ(reductions, 60);
}

TEST(ExpressionTest, DeepChainsNeedNoDeepStack) {
  constexpr int kDepth = 1'000'000;
  ExpressionGraph graph;
  ExpressionId left_deep = graph.Input(1, 0);
  ExpressionId right_deep = left_deep;
  for (int i = 0; i < kDepth; ++i) {
    left_deep = graph.Reduce({left_deep, graph.Input(1, 0)});
    right_deep = graph.Reduce({graph.Input(1, 0), right_deep});
  }
  int reductions = 0;
  Evaluator<Sum> sum(graph, {&reductions});
  EXPECT_EQ(sum(left_deep), kDepth + 1);
  EXPECT_EQ(sum(right_deep), kDepth + 1);
  EXPECT_EQ(graph.Leaves(left_deep, 2 * kDepth).size(), kDepth + 1);
}

TEST(ExpressionTest, LeavesComeLeftToRightAsOftenAsUsed) {
  ExpressionGraph graph;
  const ExpressionId a = graph.Input(0, 0);
  const ExpressionId b = graph.Input(1, 0);
  const ExpressionId all =
      graph.Finish(graph.Reduce({graph.Reduce({b, a}), graph.Reduce({a, b})}));
  EXPECT_THAT(graph.Leaves(all, 10), testing::ElementsAre(b, a, a, b));
  EXPECT_THAT(graph.Leaves(all, 3), testing::ElementsAre(b, a, a));
}

// --- symbolic ----------------------------------------------------------------

// Returns schedules of all ranks. `build` adds the lanes of a rank.
template <typename Build>
std::vector<Schedule> ForRanks(int num_ranks, Build build, int num_chunks = 1) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < num_ranks; ++rank) {
    ScheduleBuilder builder(num_chunks);
    build(rank, builder);
    schedules.push_back(builder.Build());
  }
  return schedules;
}

absl::StatusOr<GroupPlan> AllReduce(const std::vector<Schedule>& schedules,
                                    std::vector<bool> in_place = {}) {
  return GroupPlan::Create({.type = kAllReduce,
                            .num_ranks = static_cast<int>(schedules.size()),
                            .num_chunks = schedules.front().num_chunks,
                            .in_place = std::move(in_place)},
                           schedules);
}

// Returns, by rank and chunk, the final value of the output; "" if undefined.
std::vector<std::vector<std::string>> OutputsOf(
    const absl::StatusOr<GroupPlan>& plan) {
  const auto run = RunSymbolically(plan.value());
  Evaluator<WrittenExpression> written(run.value().expressions, {});
  std::vector<std::vector<std::string>> outputs;
  for (const auto& of_rank : run->outputs) {
    outputs.emplace_back();
    for (const ExpressionId id : of_rank) {
      outputs.back().push_back(id == kUndefined ? "" : written(id));
    }
  }
  return outputs;
}

std::string ErrorOf(const std::vector<Schedule>& schedules) {
  const auto plan = AllReduce(schedules);
  if (!plan.ok()) return absl::StrCat("no plan: ", plan.status().message());
  const absl::Status error = RunSymbolically(*plan).status();
  EXPECT_EQ(CompletionOrder(*plan).status(), error);
  return std::string(error.message());
}

TEST(SymbolicTest, AStepActsOnEachChunkOfItsRange) {
  const auto schedules = ForRanks(
      2,
      [](int rank, auto& builder) {
        auto lane = builder.AddLane();
        if (rank == 1) lane.Send(0, 0, Input(1, 2));
        if (rank == 0) {
          lane.Recv(1, 0, Scratch(1, 0, 2));
          lane.ReduceAndFinish(Data(1, 2), Input(1, 2), Scratch(1, 0, 2));
        }
      },
      /*num_chunks=*/3);
  EXPECT_THAT(OutputsOf(AllReduce(schedules)),
              ElementsAre(ElementsAre("", "f(0.1+1.1)", "f(0.2+1.2)"), _));
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
  EXPECT_THAT(OutputsOf(plan), ElementsAre(ElementsAre("f(2.0+(0.0+1.0))"),
                                           ElementsAre(""), ElementsAre("")));
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
  EXPECT_THAT(OutputsOf(plan),
              ElementsAre(ElementsAre("f(2.0+0.0+1.0)"), _, _));
}

TEST(SymbolicTest, InPlaceTheOutputBeginsAsTheInput) {
  const auto nothing = ForRanks(2, [](int, auto&) {});
  EXPECT_THAT(OutputsOf(AllReduce(nothing, /*in_place=*/{false, true})),
              ElementsAre(ElementsAre(""), ElementsAre("1.0")));
}

TEST(SymbolicTest, StepsCompleteAfterAllTheyWaitFor) {
  const auto plan = AllReduce(ForRanks(2, [](int rank, auto& builder) {
                      auto first = builder.AddLane();
                      auto second = builder.AddLane();
                      const StepRef copied = second.Copy(Scratch(0), Input(0));
                      if (rank == 0) first.Send(1, 0, Scratch(0), copied);
                      if (rank == 1) first.Recv(0, 0, Data(0), copied);
                    })).value();
  const auto run = RunSymbolically(plan).value();
  const std::vector<int>& order = run.completion_order;
  EXPECT_EQ(*CompletionOrder(plan), order);
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
  const auto plan =
      GroupPlan::Create({.type = kGather, .num_ranks = n, .num_chunks = n},
                        schedules)
          .value();
  EXPECT_EQ(*CompletionOrder(plan), std::vector<int>{});
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

// --- races -------------------------------------------------------------------

struct Setting {
  int num_ranks = 1;
  int num_chunks = 1;
  std::vector<bool> in_place;
};

// Returns the race among the lanes that `build` adds for each rank, or "".
template <typename Build>
std::string RaceIn(const Setting& setting, Build build) {
  const auto plan = AllReduce(
      ForRanks(setting.num_ranks, build, setting.num_chunks), setting.in_place);
  if (!plan.ok()) return absl::StrCat("no plan: ", plan.status().message());
  const auto run = RunSymbolically(*plan);
  if (!run.ok()) return absl::StrCat("no run: ", run.status().message());
  StepOrder order(*plan, run->completion_order);
  return std::string(CheckRaces(*plan, order).message());
}

TEST(RacesTest, LanesMayReadTheSameMemory) {
  EXPECT_EQ(RaceIn({},
                   [](int, auto& builder) {
                     builder.AddLane().Copy(Data(0), Input(0));
                     builder.AddLane().Copy(Scratch(0), Input(0));
                   }),
            "");
}

TEST(RacesTest, LanesThatWriteTheSameMemoryRace) {
  EXPECT_EQ(RaceIn({},
                   [](int, auto& builder) {
                     builder.AddLane().Copy(Data(0), Input(0));
                     builder.AddLane().Copy(Data(0), Input(0));
                   }),
            "race: rank 0, 1.0 (data[0] = input[0]) may write data[0] while "
            "rank 0, 0.0 (data[0] = input[0]) writes it");
}

TEST(RacesTest, ARangeRacesWithEachOfItsChunks) {
  for (const int chunk : {0, 1, 2, 3}) {
    const std::string race =
        RaceIn({.num_chunks = 4}, [chunk](int, auto& builder) {
          builder.AddLane().Copy(Data(1, 2), Input(1, 2));
          builder.AddLane().Copy(Data(chunk), Input(chunk));
        });
    EXPECT_EQ(race.empty(), chunk == 0 || chunk == 3) << race;
  }
}

// Rank 0 sends two chunks, and overwrites the first when an answer has come.
// Answers with the other chunk may be empty, and are then skipped.
TEST(RacesTest, MessagesOrderTheChunksThatTheyHave) {
  for (const int answered : {0, 1}) {
    const std::string race = RaceIn(
        {.num_ranks = 2, .num_chunks = 2}, [answered](int rank, auto& builder) {
          auto lane = builder.AddLane();
          if (rank == 1) {
            lane.Recv(0, 0, Scratch(0, 0, 2));
            lane.Send(0, 0, Scratch(answered));
            return;
          }
          const StepRef made = lane.Copy(Data(0, 2), Input(0, 2));
          builder.AddLane().Send(1, 0, Data(0, 2), made);
          lane.Recv(1, 0, Scratch(answered));
          lane.Copy(Data(0), Input(0));
        });
    EXPECT_EQ(race.empty(), answered == 0) << race;
  }
}

TEST(RacesTest, AfterOrdersLanes) {
  EXPECT_EQ(RaceIn({},
                   [](int, auto& builder) {
                     auto lane = builder.AddLane();
                     lane.Copy(Scratch(0, 1), Input(0));
                     const StepRef written = lane.Copy(Data(0), Input(0));
                     builder.AddLane().Copy(Scratch(0), Data(0), written);
                   }),
            "");
}

TEST(RacesTest, AfterTheWrongStepDoesNotOrder) {
  const std::string race = RaceIn({}, [](int, auto& builder) {
    auto lane = builder.AddLane();
    const StepRef other = lane.Copy(Scratch(0, 1), Input(0));
    lane.Copy(Data(0), Input(0));
    builder.AddLane().Copy(Data(0), Input(0), other);
  });
  EXPECT_THAT(race, HasSubstr("may write data[0] while"));
}

TEST(RacesTest, ScratchBanksAreDifferentMemory) {
  EXPECT_EQ(RaceIn({},
                   [](int, auto& builder) {
                     builder.AddLane().Copy(Scratch(0), Input(0));
                     builder.AddLane().Copy(Scratch(0, 1), Input(0));
                   }),
            "");
}

// Rank 0 sends Data(0) and reuses it, after the send or concurrently.
std::string ReuseWhileSending(bool waits) {
  return RaceIn({.num_ranks = 2}, [waits](int rank, auto& builder) {
    if (rank == 1) {
      builder.AddLane().Recv(0, 0, Data(0));
      return;
    }
    auto lane = builder.AddLane();
    const StepRef made = lane.Copy(Data(0), Input(0));
    const StepRef sent = lane.Send(1, 0, Data(0));
    builder.AddLane().Copy(Data(0), Input(0), waits ? sent : made);
  });
}

TEST(RacesTest, WhatIsSentIsLentUntilItHasBeenRead) {
  EXPECT_THAT(ReuseWhileSending(/*waits=*/false),
              HasSubstr("rank 0, 1.0 (data[0] = input[0], after 0.0) may write "
                        "data[0] while rank 0, 0.1 (send data[0] to 1, tag 0) "
                        "lends it"));
  EXPECT_EQ(ReuseWhileSending(/*waits=*/true), "");
}

// Every rank sends its input and overwrites it in place.
std::string ExchangeInPlace(const std::vector<bool>& in_place) {
  return RaceIn({.num_ranks = 2, .in_place = in_place},
                [](int rank, auto& builder) {
                  builder.AddLane().Send(1 - rank, 0, Input(0));
                  builder.AddLane().Recv(1 - rank, 0, Data(0));
                });
}

TEST(RacesTest, InPlaceInputAndOutputAreOneMemory) {
  EXPECT_EQ(ExchangeInPlace({false, false}), "");
  EXPECT_THAT(ExchangeInPlace({false, true}),
              AllOf(HasSubstr("rank 1"), HasSubstr("input[0]")));
}

// A value goes 0 -> 1 -> ... -> 0 and overwrites the bytes that rank 0 sent.
// This is safe: the value cannot come back before rank 1 has read them.
TEST(RacesTest, OrderMayComeFromOtherRanks) {
  EXPECT_EQ(RaceIn({.num_ranks = 4, .in_place = {true, true, true, true}},
                   [](int rank, auto& builder) {
                     auto sends = builder.AddLane();
                     auto receives = builder.AddLane();
                     const StepRef arrived =
                         receives.Recv((rank + 3) % 4, 0, Data(0));
                     sends.Send((rank + 1) % 4, 0, Data(0),
                                rank == 0 ? StepRef{} : arrived);
                   }),
            "");
}

// Rank 0 sends two chunks in two lanes. The answer overwrites the first chunk.
// The answer must wait for the read of chunk 0. A wait for chunk 1 orders
// nothing: chunk 1 may be empty and skipped.
std::string AnswerAfterReading(int chunk_waited_for) {
  return RaceIn(
      {.num_ranks = 2, .num_chunks = 2, .in_place = {true, true}},
      [&](int rank, auto& builder) {
        if (rank == 0) {
          builder.AddLane().Send(1, 0, Input(0));
          builder.AddLane().Send(1, 1, Input(1));
          builder.AddLane().Recv(1, 2, Data(0));
          return;
        }
        const StepRef read[] = {builder.AddLane().Recv(0, 0, Scratch(0)),
                                builder.AddLane().Recv(0, 1, Scratch(1))};
        builder.AddLane().Send(0, 2, Input(0), read[chunk_waited_for]);
      });
}

TEST(RacesTest, TransfersThatMayBeSkippedOrderNothing) {
  EXPECT_EQ(AnswerAfterReading(0), "");
  EXPECT_THAT(AnswerAfterReading(1),
              HasSubstr("may write input[0] while rank 0, 0.0 (send input[0] "
                        "to 1, tag 0) lends it"));
}

// A complete send shows that the peer has read the bytes. The receive of the
// peer may still be incomplete.
TEST(RacesTest, CompleteSendDoesNotMeanCompleteReceive) {
  const std::string race =
      RaceIn({.num_ranks = 2}, [](int rank, auto& builder) {
        auto lane = builder.AddLane();
        if (rank == 0) {
          lane.Send(1, 0, Input(0));
          lane.Send(1, 1, Input(0));
          return;
        }
        lane.Recv(0, 0, Data(0));
        auto other = builder.AddLane();
        other.Recv(0, 1, Scratch(0));
        other.Copy(Scratch(0, 1), Data(0));
      });
  EXPECT_THAT(
      race,
      HasSubstr(
          "rank 1, 0.0 (recv data[0] from 0, tag 0) may write data[0] while"));
}

TEST(RacesTest, EarlierReadersCountUntilTheNextWrite) {
  const std::string race = RaceIn({}, [](int, auto& builder) {
    auto lane = builder.AddLane();
    const StepRef made = lane.Copy(Data(0), Input(0));
    builder.AddLane().Copy(Scratch(0), Data(0), made);
    const StepRef second = builder.AddLane().Copy(Scratch(0, 1), Data(0), made);
    lane.Copy(Data(0), Input(0), second);
  });
  EXPECT_THAT(race, HasSubstr("while rank 0, 1.0 (scratch[0] = data[0], after "
                              "0.0) reads it"));
}

// --- verifier ----------------------------------------------------------------

using PlanFunction = Schedule (*)(const PlanRequest&);

Algorithm Serving(CollectiveType type, PlanFunction plan) {
  return {.traits = {.collectives = {type}}, .plan = plan};
}

// Returns the verifier's complaint on four ranks, or "".
std::string Wrong(const Algorithm& algorithm, VerifyCase request = {}) {
  request.layout = GroupLayout::Uniform(1, 4);
  request.type = algorithm.traits.collectives.front();
  return std::string(Verify(algorithm, request).message());
}

std::string Wrong(CollectiveType type, PlanFunction plan,
                  VerifyCase request = {}) {
  return Wrong(Serving(type, plan), std::move(request));
}

// A correct all-reduce: rank 0 adds the others' inputs in rank order, and sends
// the sum back. Tests plant bugs into its schedules.
//   rank 0: lane 0: recv 1, add, recv 2, add, recv 3, add, send to 1, 2, 3
//   others: lane 0: send to 0, recv
Schedule Star(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  if (request.rank > 0) {
    lane.Send(0, 0, Input(0));
    lane.Recv(0, 1, Data(0));
    return builder.Build();
  }
  const int size = request.layout.size();
  for (int from = 1; from < size; ++from) {
    lane.Recv(from, 0, Scratch(0, from));
    const Slot sum = from == 1 ? Input(0) : Data(0);
    if (from + 1 < size) {
      lane.Reduce(Data(0), sum, Scratch(0, from));
    } else {
      lane.ReduceAndFinish(Data(0), sum, Scratch(0, from));
    }
  }
  for (int to = 1; to < size; ++to) lane.Send(to, 1, Data(0));
  return builder.Build();
}

// A correct broadcast.
Schedule FanOut(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  if (request.rank != request.root) {
    lane.Recv(request.root, 0, Data(0));
    return builder.Build();
  }
  for (int to = 0; to < request.layout.size(); ++to) {
    if (to != request.rank) lane.Send(to, 0, Input(0));
  }
  lane.Copy(Data(0), Input(0));
  return builder.Build();
}

// An all-to-all that is correct out of place only.
Schedule Exchange(const PlanRequest& request) {
  const int size = request.layout.size();
  ScheduleBuilder builder(size);
  auto sends = builder.AddLane();
  auto receives = builder.AddLane();
  for (int i = 1; i < size; ++i) {
    const int to = (request.rank + i) % size;
    const int from = (request.rank + size - i) % size;
    sends.Send(to, 0, Input(to));
    receives.Recv(from, 0, Data(from));
  }
  receives.Copy(Data(request.rank), Input(request.rank));
  return builder.Build();
}

// A correct barrier: all send to rank 0, then rank 0 sends to all.
Schedule Meet(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  const int size = request.layout.size();
  if (request.rank > 0) {
    lane.Send(0, 0, Input(0));
    lane.Recv(0, 1, Scratch(0));
    return builder.Build();
  }
  for (int from = 1; from < size; ++from) lane.Recv(from, 0, Scratch(0));
  for (int to = 1; to < size; ++to) lane.Send(to, 1, Input(0));
  return builder.Build();
}

// Rank 0 reduces all inputs in one step.
Schedule StarAtOnce(const PlanRequest& request) {
  if (request.rank > 0) return Star(request);
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  std::vector<Slot> operands = {Input(0)};
  for (int from = 1; from < request.layout.size(); ++from) {
    operands.push_back(Scratch(0, from));
    lane.Wait(builder.AddLane().Recv(from, 0, operands.back()));
  }
  lane.ReduceManyAndFinish(Data(0), operands);
  for (int to = 1; to < request.layout.size(); ++to) lane.Send(to, 1, Data(0));
  return builder.Build();
}

TEST(VerifierTest, RightAlgorithmsPass) {
  EXPECT_THAT(Wrong(kAllReduce, Star), IsEmpty());
  for (InPlace in_place : {InPlace::kAll, InPlace::kEvenRanks}) {
    EXPECT_THAT(Wrong(kAllReduce, Star, {.in_place = in_place}), IsEmpty());
  }
  EXPECT_THAT(Wrong(kBroadcast, FanOut, {.root = 2}), IsEmpty());
  EXPECT_THAT(Wrong(kAllToAll, Exchange), IsEmpty());
  EXPECT_THAT(Wrong(kBarrier, Meet), IsEmpty());
}

struct Bug {
  const char* name;
  CollectiveType type;
  PlanFunction plan;
  const char* complaint;
};

class PlantedBugsTest : public testing::TestWithParam<Bug> {};

TEST_P(PlantedBugsTest, IsFound) {
  EXPECT_THAT(Wrong(GetParam().type, GetParam().plan),
              HasSubstr(GetParam().complaint));
}

// Returns the plan `right` with a bug: `plant` changes the schedule of each
// rank, or its first lane.
template <PlanFunction right, typename Plant>
PlanFunction With(Plant) {
  return [](const PlanRequest& request) {
    Schedule schedule = right(request);
    if constexpr (std::is_invocable_v<Plant, int, Lane&>) {
      Plant()(request.rank, schedule.lanes[0]);
    } else {
      Plant()(request.rank, schedule);
    }
    return schedule;
  };
}

INSTANTIATE_TEST_SUITE_P(
    Bugs, PlantedBugsTest,
    testing::Values(
        Bug{"MissingContribution", kAllReduce,
            With<Star>([](int rank, Lane& lane) {
              if (rank == 0) lane.erase(lane.begin() + 3);
            }),
            "data[0] of rank 0 lacks input[0] of rank 2"},
        Bug{"DoubledContribution", kAllReduce,
            With<Star>([](int rank, Lane& lane) {
              if (rank == 0) lane[3].right = Scratch(0, 1);
            }),
            "contains input[0] of rank 1 twice"},
        Bug{"ContributionAddedAgainAtTheEnd", kAllReduce,
            With<Star>([](int rank, Lane& lane) {
              if (rank == 0) {
                Step again = lane[5];
                lane[5].finish = false;
                lane.insert(lane.begin() + 6, again);
              }
            }),
            "contains input[0] of rank 3 twice"},
        Bug{"EndlessDoublingIsNoticedAtOnce", kAllReduce,
            With<Star>([](int rank, Lane& lane) {
              if (rank == 0) {
                lane.insert(lane.begin() + 2, 200,
                            {.kind = StepKind::kReduce,
                             .into = Data(0),
                             .left = Data(0),
                             .right = Data(0)});
              }
            }),
            "twice"},
        Bug{"WrongChunkSent", kAllToAll,
            With<Exchange>([](int rank, Lane& lane) {
              if (rank == 1) lane[0].left = Input(3);
            }),
            "data[1] of rank 2 holds input[3] of rank 1; wants "
            "input[2] of rank 1"},
        Bug{"WrongBlockReduced", kReduceScatter,
            With<Exchange>([](int rank, Schedule& schedule) {
              if (rank == 1) schedule.lanes[0][0].left = Input(3);
              Lane& receives = schedule.lanes[1];
              receives.pop_back();
              Slot sum = Input(rank);
              for (size_t i = 0; i < receives.size(); i += 2) {
                receives[i].into = Scratch(rank, receives[i].peer);
                receives.insert(receives.begin() + i + 1,
                                {.kind = StepKind::kReduce,
                                 .finish = i == 4,
                                 .into = Data(rank),
                                 .left = std::exchange(sum, Data(rank)),
                                 .right = receives[i].into});
              }
            }),
            "data[2] of rank 2 contains input[3] of rank 1"},
        Bug{"UnmatchedSend", kAllReduce, With<Star>([](int rank, Lane& lane) {
              if (rank == 3) lane.pop_back();
            }),
            "(send data[0] to 3, tag 1) has no receive with its "
            "tag at rank 3"},
        Bug{"NeverFinished", kAllReduce, With<Star>([](int, Lane& lane) {
              for (Step& step : lane) step.finish = false;
            }),
            "data[0] of rank 0 was never finished"},
        Bug{"FinishedTwice", kAllReduce, With<Star>([](int rank, Lane& lane) {
              if (rank == 2) {
                lane.push_back({.kind = StepKind::kCopy,
                                .finish = true,
                                .into = Data(0),
                                .left = Data(0)});
              }
            }),
            "data[0] of rank 2 was finished more than once"},
        Bug{"FinishedTooEarly", kAllReduce,
            With<Star>([](int rank, Lane& lane) {
              if (rank == 0) {
                lane[3].finish = true;
                lane[5].finish = false;
              }
            }),
            "was reduced after it was finished"},
        Bug{"FinishedThoughNothingIsReduced", kBroadcast,
            With<FanOut>([](int rank, Lane& lane) {
              if (rank == 0) lane.back().finish = true;
            }),
            "had the final op applied"},
        Bug{"ReducedThoughNothingIsToBe", kBroadcast,
            With<FanOut>([](int rank, Lane& lane) {
              if (rank == 0) {
                Step& last = lane.back();
                last.kind = StepKind::kReduce;
                last.right = Input(0);
              }
            }),
            "data[0] of rank 0 was reduced"},
        Bug{"AReductionOfManyWithOneTwice", kAllReduce,
            With<StarAtOnce>([](int rank, Lane& lane) {
              if (rank == 0) lane[3].more[1] = Scratch(0, 2);
            }),
            "contains input[0] of rank 2 twice"},
        Bug{"OutputNeverWritten", kAllToAll,
            With<Exchange>([](int, Schedule& schedule) {
              schedule.lanes[1].pop_back();
            }),
            "data[0] of rank 0 was never written"},
        Bug{"BarrierThatDoesNotHold", kBarrier,
            With<Meet>([](int rank, Lane& lane) {
              if (rank == 0) {  // Sends to rank 1 before rank 3 comes.
                std::swap(lane[2], lane[3]);
              }
            }),
            "rank 1 can leave before rank 3 has come"},
        Bug{"DeadlockByOrder", kAllReduce, With<Star>([](int rank, Lane& lane) {
              if (rank == 0) {  // Sends before it receives.
                std::rotate(lane.begin(), lane.begin() + 6, lane.end());
                lane[0].left = lane[1].left = lane[2].left = Input(0);
              }
            }),
            "deadlock: rank 0, 0.0 (send input[0] to 1, tag 1) waits for rank "
            "1, 0.1"},
        Bug{"LanesThatRace", kAllReduce,
            With<Star>([](int rank, Schedule& schedule) {
              if (rank == 0) {  // Moves the last sum to another lane.
                Lane& lane = schedule.lanes[0];
                const Lane last(lane.begin() + 4, lane.begin() + 6);
                lane.erase(lane.begin() + 4, lane.begin() + 6);
                lane[4].after = {.lane = 1, .step = 1};
                schedule.lanes.push_back(last);
              }
            }),
            "race: rank 0, 0.3 (data[0] = data[0] (+) scratch[0].2) may write "
            "data[0]"},
        Bug{"BarrierThatSomebodySkips", kBarrier,
            [](const PlanRequest&) { return Schedule{.num_chunks = 1}; },
            "rank 0 can leave before rank 1 has come"},
        Bug{"NumberOfChunksThatIsNoMultiple", kAllGather,
            [](const PlanRequest&) { return Schedule{.num_chunks = 6}; },
            "in 6 chunks; wants a multiple"}),
    [](const auto& info) { return info.param.name; });

TEST(PlantedBugTest, WrongChunkSentWhereSizesDiffer) {
  Algorithm algorithm = Serving(kAllToAll, [](const PlanRequest& request) {
    Schedule schedule = Exchange(request);
    if (request.rank == 1) schedule.lanes[0][0].left = Input(3);
    return schedule;
  });
  EXPECT_THAT(Wrong(algorithm, {.blocks_differ = true}),
              HasSubstr("may differ in size"));
}

TEST(PlantedBugTest, OverwritingTheInputInPlace) {
  EXPECT_THAT(Wrong(kAllToAll, Exchange), IsEmpty());
  for (InPlace in_place : {InPlace::kAll, InPlace::kEvenRanks}) {
    EXPECT_THAT(Wrong(kAllToAll, Exchange, {.in_place = in_place}),
                AllOf(HasSubstr("race: rank 0"), HasSubstr("input[")));
  }
}

TEST(PlantedBugTest, OverwritingTheInputInPlaceInOneLane) {
  const auto plan = [](const PlanRequest& request) {
    ScheduleBuilder builder(/*num_chunks=*/1);
    auto lane = builder.AddLane();
    const int other = request.rank ^ 1;
    if (request.rank < other) lane.Send(other, 0, Input(0));
    lane.Recv(other, 0, Data(0));
    if (request.rank > other) lane.Send(other, 0, Input(0));
    return builder.Build();
  };
  VerifyCase request = {.permutation = {1, 0, 3, 2}};
  EXPECT_THAT(Wrong(kPermute, plan, request), IsEmpty());
  request.in_place = InPlace::kAll;
  EXPECT_THAT(Wrong(kPermute, plan, request),
              HasSubstr("data[0] of rank 0 holds input[0] of rank 0; wants "
                        "input[0] of rank 1"));
}

TEST(PlantedBugTest, WrongRoot) {
  const auto plan = [](const PlanRequest& request) {
    PlanRequest wrong = request;
    wrong.root = 0;
    return FanOut(wrong);
  };
  EXPECT_THAT(Wrong(kBroadcast, plan, {.root = 0}), IsEmpty());
  EXPECT_THAT(Wrong(kBroadcast, plan, {.root = 2}),
              HasSubstr("rank 0, 0.0 (send input[0] to 1, tag 0) uses "
                        "input[0], which the rank does not have"));
}

TEST(PlantedBugTest, AReductionOfManyThatDoesNotWaitForOne) {
  Algorithm algorithm = Serving(kAllReduce, StarAtOnce);
  algorithm.traits.preserves_rank_order = true;
  EXPECT_THAT(Wrong(algorithm), IsEmpty());
  algorithm.plan = [](const PlanRequest& request) {
    Schedule schedule = StarAtOnce(request);
    if (request.rank == 0) schedule.lanes[0][2].after = {};
    return schedule;
  };
  EXPECT_THAT(Wrong(algorithm), HasSubstr("scratch[0].3"));
}

TEST(PlantedBugTest, WrongOrderOfReduction) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) {
      std::swap(schedule.lanes[0][3].left, schedule.lanes[0][3].right);
    }
    return schedule;
  };
  Algorithm algorithm = Serving(kAllReduce, plan);
  EXPECT_THAT(Wrong(algorithm), IsEmpty());
  algorithm.traits.preserves_rank_order = true;
  EXPECT_THAT(Wrong(algorithm), HasSubstr("was not reduced in rank order"));
  algorithm.plan = Star;
  EXPECT_THAT(Wrong(algorithm), IsEmpty());
}

// Sums along a chain of all ranks.
Schedule ChainOfSums(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  if (request.rank == 0) {
    lane.Copy(Data(0), Input(0));
  } else {
    lane.Recv(request.rank - 1, /*tag=*/0, Scratch(0));
    lane.Reduce(Data(0), Scratch(0), Input(0));
  }
  if (request.rank + 1 < request.layout.size()) {
    lane.Send(request.rank + 1, /*tag=*/0, Data(0));
  }
  return builder.Build();
}

TEST(PlantedBugTest, AScanOfTheWrongRanks) {
  EXPECT_THAT(Wrong(kScan, ChainOfSums, {}), IsEmpty());
  const auto lacks = [](const PlanRequest& request) {
    Schedule schedule = ChainOfSums(request);
    if (request.rank == 2) {
      schedule.lanes[0][1] = {
          .kind = StepKind::kCopy, .into = Data(0), .left = Scratch(0)};
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(kScan, lacks, {}),
              HasSubstr("of rank 2 lacks input[0] of rank 2"));
  // Rank 0 has no output, so it sends its input.
  const auto contains = [](const PlanRequest& request) {
    Schedule schedule = ChainOfSums(request);
    if (request.rank > 0) return schedule;
    schedule.lanes[0].erase(schedule.lanes[0].begin());
    schedule.lanes[0][0].left = Input(0);
    return schedule;
  };
  EXPECT_THAT(Wrong(kExscan, contains, {}),
              HasSubstr("of rank 1 contains input[0] of rank 1"));
}

TEST(PlantedBugTest, AScanThatIsFinished) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = ChainOfSums(request);
    if (request.rank == 3) schedule.lanes[0][1].finish = true;
    return schedule;
  };
  EXPECT_THAT(Wrong(kScan, plan, {}),
              HasSubstr("of rank 3 was finished, but scans have no final op"));
}

TEST(PlantedBugTest, InPlaceSendsSomethingElse) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    for (Step& step : schedule.lanes[0]) step.tag += request.in_place ? 10 : 0;
    return schedule;
  };
  EXPECT_THAT(Wrong(kAllReduce, plan, {.in_place = InPlace::kAll}), IsEmpty());
  EXPECT_THAT(Wrong(kAllReduce, plan, {.in_place = InPlace::kEvenRanks}),
              HasSubstr("has no"));
}

TEST(PlantedBugTest, InPlaceSendsSomethingElseToPeersThatDoToo) {
  // The two ranks of a pair use the same tag, even if only even ranks work in
  // place.
  const auto plan = [](const PlanRequest& request) {
    ScheduleBuilder builder(/*num_chunks=*/1);
    const int to = (request.rank + 2) % 4;
    const int tag = request.in_place ? 1 : 0;
    auto receives = builder.AddLane();
    receives.Copy(Scratch(0), Input(0));
    receives.Recv(to, tag, Data(0));
    builder.AddLane().Send(to, tag, Scratch(0), {.lane = 0, .step = 0});
    return builder.Build();
  };
  EXPECT_THAT(
      Wrong(kPermute, plan,
            {.permutation = {2, 3, 0, 1}, .in_place = InPlace::kEvenRanks}),
      HasSubstr("rank 0 sends or receives differently in place"));
}

TEST(PlantedBugTest, RanksThatWaitForEachOtherOnlyInOneMixture) {
  const auto plan = [](const PlanRequest& request) {
    ScheduleBuilder builder(/*num_chunks=*/1);
    const int other = request.rank ^ 1;
    auto receives = builder.AddLane();
    receives.Copy(Scratch(0), Input(0));
    receives.Recv(other, 0, Data(0));
    const bool waits = request.in_place == (request.rank % 2 != 0);
    if (waits) {
      receives.Send(other, 0, Scratch(0));
    } else {
      builder.AddLane().Send(other, 0, Scratch(0), {.lane = 0, .step = 0});
    }
    return builder.Build();
  };
  VerifyCase request = {.permutation = {1, 0, 3, 2}};
  for (const InPlace in_place :
       {InPlace::kNone, InPlace::kAll, InPlace::kEvenRanks}) {
    request.in_place = in_place;
    EXPECT_THAT(Wrong(kPermute, plan, request), IsEmpty());
  }
  request.in_place = InPlace::kOddRanks;
  EXPECT_THAT(Wrong(kPermute, plan, request), HasSubstr("deadlock"));
}

TEST(VerifierTest, RefusesRequestsTheAlgorithmCannotPlan) {
  const auto error = [](const Algorithm& algorithm, const VerifyCase& request) {
    const absl::Status status = Verify(algorithm, request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const Algorithm broadcast = Serving(kBroadcast, FanOut);
  EXPECT_THAT(error(broadcast, {.type = kReduce}),
              HasSubstr("cannot plan reduce on 1x1, root 0: the algorithm does "
                        "not serve this collective"));
  EXPECT_THAT(error(broadcast, {.type = kBroadcast, .root = 1}),
              HasSubstr("no such root"));
  EXPECT_THAT(error(broadcast, {.type = kBroadcast, .subdiv_offsets = {0}}),
              HasSubstr("offsets"));
  const Algorithm permute = Serving(kPermute, Star);
  EXPECT_THAT(error(permute, {.type = kPermute, .permutation = {1}}),
              HasSubstr("not a permutation"));
  EXPECT_THAT(error(Serving(kBarrier, nullptr), {.type = kBarrier}),
              HasSubstr("no plan function"));
}

TEST(VerifierTest, SymbolicallyGivesTheExactSum) {
  const auto run = Symbolically(Serving(kAllReduce, Star),
                                {.layout = GroupLayout::Uniform(1, 3)})
                       .value();
  const ExpressionId sum = run.outputs[2][0];
  ASSERT_NE(sum, kUndefined);
  EXPECT_EQ(sum, run.outputs[0][0]);
  EXPECT_EQ(run.expressions[sum].kind, ExpressionKind::kFinish);
  EXPECT_EQ(run.expressions.Leaves(sum, 10).size(), 3u);
}

TEST(VerifierTest, CasesReadLikeSentences) {
  EXPECT_EQ(ToString(VerifyCase{.layout = GroupLayout::Uniform(2, 4),
                                .type = kReduce,
                                .root = 3,
                                .in_place = InPlace::kEvenRanks}),
            "reduce on 2x4, root 3, in place on even ranks");
  EXPECT_EQ(ToString(VerifyCase{.layout = GroupLayout::Uniform(2, 1),
                                .in_place = InPlace::kOddRanks}),
            "all_reduce on 2x1, in place on odd ranks");
  EXPECT_EQ(ToString(VerifyCase{.layout = GroupLayout::Uniform(1, 3),
                                .type = kPermute,
                                .permutation = {1, 2, 0},
                                .subdiv_offsets = {0, -1}}),
            "permute on 1x3, permutation 1,2,0, offsets 0,-1");
  EXPECT_EQ(ToString(VerifyCase{.layout = GroupLayout::Uniform(1, 3),
                                .subdiv_offsets = std::vector<int>(64, -1)}),
            "all_reduce on 1x3, 64 subdivisions, offsets -1");
}

// --- standard cases ----------------------------------------------------------

Schedule DoNothing(const PlanRequest&) { return {.num_chunks = 1}; }

std::vector<int> SubdivideInFive(const SubdivisionRequest&) {
  return {0, 1, 2, 3, 4};
}

std::vector<VerifyCase> CasesOf(CollectiveType type, const CaseLimits& limits,
                                bool subdivides = false) {
  Algorithm algorithm = {
      .traits = {.collectives = {type}, .supports_subdivisions = subdivides},
      .plan = DoNothing};
  if (subdivides) algorithm.subdivide = SubdivideInFive;
  std::vector<VerifyCase> cases;
  ForEachStandardCase(algorithm, limits, [&](const VerifyCase& request) {
    cases.push_back(request);
    return true;
  });
  return cases;
}

std::set<std::string> LayoutsOf(const std::vector<VerifyCase>& cases) {
  std::set<std::string> layouts;
  for (const VerifyCase& request : cases) {
    layouts.insert(request.layout.ToString());
  }
  return layouts;
}

TEST(StandardCasesTest, HaveEverySizeAsOneTaskAndAsOneTaskPerRank) {
  const auto layouts = LayoutsOf(CasesOf(kBarrier, {}));
  for (int size = 1; size <= 64; ++size) {
    EXPECT_THAT(layouts, Contains(GroupLayout::Uniform(1, size).ToString()));
    EXPECT_THAT(layouts, Contains(GroupLayout::Uniform(size, 1).ToString()));
  }
  for (const char* mixed : {"8x8", "4x8", "3+1+2"}) {
    EXPECT_THAT(layouts, Contains(mixed));
  }
}

TEST(StandardCasesTest, HaveAllLayoutsOfFewEqualTasks) {
  const auto layouts = LayoutsOf(CasesOf(kBarrier, {}));
  for (int num_tasks = 1; num_tasks <= 16; ++num_tasks) {
    for (int devices = 1; num_tasks * devices <= 16; ++devices) {
      EXPECT_THAT(
          layouts,
          Contains(GroupLayout::Uniform(num_tasks, devices).ToString()));
    }
  }
}

TEST(StandardCasesTest, HaveTasksWhoseRanksAreScattered) {
  const auto cases = CasesOf(kBarrier, {.min_ranks = 7, .max_ranks = 7});
  EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [](const auto& request) {
    return request.layout.tasks()[0] == std::vector<int>{0, 3, 6};
  }));
}

TEST(StandardCasesTest, HaveEveryRootInEveryMode) {
  const auto cases = CasesOf(kReduce, {.min_ranks = 64, .max_ranks = 64});
  std::set<std::pair<int, InPlace>> seen;
  for (const VerifyCase& request : cases) {
    seen.insert({request.root, request.in_place});
  }
  EXPECT_EQ(seen.size(), 64u * 4);
}

TEST(StandardCasesTest, HaveDifferentPermutations) {
  const auto cases = CasesOf(kPermute, {.min_ranks = 8, .max_ranks = 8});
  std::set<std::vector<int>> seen;
  for (const VerifyCase& request : cases) seen.insert(request.permutation);
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_THAT(seen, Contains(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_THAT(seen, Contains(std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_THAT(seen, Contains(std::vector<int>{7, 0, 1, 2, 3, 4, 5, 6}));
}

TEST(StandardCasesTest, HaveSubdivisionsWhereSupported) {
  std::set<std::vector<int>> seen;
  for (const VerifyCase& request : CasesOf(kAllReduce, {.max_ranks = 2},
                                           /*subdivides=*/true)) {
    seen.insert(request.subdiv_offsets);
  }
  EXPECT_THAT(seen, ElementsAre(std::vector<int>{0}, std::vector<int>{0, -1},
                                std::vector<int>{0, 1, -2, -3},
                                std::vector<int>{0, 1, 2, 3, 4}));
  for (const VerifyCase& request : CasesOf(kAllReduce, {.max_ranks = 2})) {
    EXPECT_TRUE(request.subdiv_offsets.empty());
  }
}

TEST(StandardCasesTest, AreFewBeyondTheThoroughSizes) {
  std::set<int> sizes;
  std::set<int> roots;
  for (const VerifyCase& request :
       CasesOf(kReduce, {.min_ranks = 65, .max_ranks = 300})) {
    sizes.insert(request.layout.size());
    if (request.layout.size() == 256) roots.insert(request.root);
  }
  EXPECT_THAT(sizes, ElementsAre(65, 127, 128, 129, 255, 256, 257, 300));
  EXPECT_THAT(roots, ElementsAre(0, 1, 128, 255));
}

TEST(StandardCasesTest, EndWhenTheVisitorHasSeenEnough) {
  const Algorithm algorithm = {.traits = {.collectives = {kReduce}},
                               .plan = DoNothing};
  int seen = 0;
  ForEachStandardCase(algorithm, {},
                      [&](const VerifyCase&) { return ++seen < 10; });
  EXPECT_EQ(seen, 10);
}

// A plan that is right for one rank and wrong for more.
Schedule CopyOnly(const PlanRequest&) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().CopyAndFinish(Data(0), Input(0));
  return builder.Build();
}

TEST(VerifyStandardCasesTest, ReportsCountsAndTheFirstFailure) {
  const Algorithm algorithm = {.traits = {.collectives = {kAllReduce}},
                               .plan = CopyOnly};
  const VerifyReport report = VerifyStandardCases(algorithm, {.max_ranks = 3});
  EXPECT_EQ(report.cases, 4 + 2 * 4 + 2 * 4);
  EXPECT_EQ(report.failed, 2 * 4 + 2 * 4);
  EXPECT_EQ(report.num_sizes, 3);
  EXPECT_EQ(report.largest_group, 3);
  EXPECT_THAT(std::string(report.first_failure.message()),
              HasSubstr("all_reduce on 1x2: wrong output: data[0] of rank 0 "
                        "lacks input[0] of rank 1"));
}

TEST(VerifyStandardCasesTest, ProgressSeesEveryCaseAndCanEndTheRun) {
  const Algorithm algorithm = {.traits = {.collectives = {kAllReduce}},
                               .plan = CopyOnly};
  std::vector<int64_t> cases;
  const VerifyReport report =
      VerifyStandardCases(algorithm, {}, [&](const VerifyReport& so_far) {
        cases.push_back(so_far.cases);
        return so_far.failed == 0;
      });
  EXPECT_THAT(cases, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(report.failed, 1);
}

}  // namespace verifier_test
}  // namespace tutti
