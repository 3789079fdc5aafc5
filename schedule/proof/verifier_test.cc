#include "schedule/proof/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tutti/schedule.h"

namespace tutti {
namespace verifier_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST(VerifierTest, RightAlgorithmsPass) {
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, Star), IsEmpty());
  for (InPlace in_place : {InPlace::kAll, InPlace::kEvenRanks}) {
    EXPECT_THAT(Wrong(CollectiveType::kAllReduce, Star, {.in_place = in_place}),
                IsEmpty());
  }
  EXPECT_THAT(Wrong(CollectiveType::kBroadcast, FanOut, {.root = 2}),
              IsEmpty());
  EXPECT_THAT(Wrong(CollectiveType::kAllToAll, Exchange), IsEmpty());
  EXPECT_THAT(Wrong(CollectiveType::kBarrier, Meet), IsEmpty());
}

TEST(PlantedBugTest, MissingContribution) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) {
      schedule.lanes[0].erase(schedule.lanes[0].begin() + 3);
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("data[0] of rank 0 lacks input[0] of rank 2"));
}

TEST(PlantedBugTest, DoubledContribution) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) schedule.lanes[0][3].right = Scratch(0, 1);
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("contains input[0] of rank 1 twice"));
}

TEST(PlantedBugTest, ContributionAddedAgainAtTheEnd) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) {
      Lane& lane = schedule.lanes[0];
      Step again = lane[5];
      lane[5].finish = false;
      lane.insert(lane.begin() + 6, again);
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("contains input[0] of rank 3 twice"));
}

TEST(PlantedBugTest, EndlessDoublingIsNoticedAtOnce) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) {
      Lane& lane = schedule.lanes[0];
      lane.insert(lane.begin() + 2, 200,
                  {.kind = StepKind::kReduce,
                   .into = Data(0),
                   .left = Data(0),
                   .right = Data(0)});
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan), HasSubstr("twice"));
}

TEST(PlantedBugTest, WrongChunkSent) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Exchange(request);
    if (request.rank == 1) schedule.lanes[0][0].left = Input(3);
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllToAll, plan),
              HasSubstr("data[1] of rank 2 holds input[3] of rank 1; wants "
                        "input[2] of rank 1"));
}

TEST(PlantedBugTest, WrongChunkSentWhereSizesDiffer) {
  Algorithm algorithm =
      Serving(CollectiveType::kAllToAll, [](const PlanRequest& request) {
        Schedule schedule = Exchange(request);
        if (request.rank == 1) schedule.lanes[0][0].left = Input(3);
        return schedule;
      });
  algorithm.traits.supports_uneven = true;
  EXPECT_THAT(Wrong(algorithm), HasSubstr("may differ in size"));
}

TEST(PlantedBugTest, WrongBlockReduced) {
  // Every rank sends each rank its block; rank 1 sends rank 2 a wrong one.
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Exchange(request);
    if (request.rank == 1) schedule.lanes[0][0].left = Input(3);
    Lane& receives = schedule.lanes[1];
    receives.pop_back();
    Slot sum = Input(request.rank);
    for (size_t i = 0; i < receives.size(); i += 2) {
      receives[i].into = Scratch(request.rank, receives[i].peer);
      receives.insert(receives.begin() + i + 1,
                      {.kind = StepKind::kReduce,
                       .finish = i == 4,
                       .into = Data(request.rank),
                       .left = std::exchange(sum, Data(request.rank)),
                       .right = receives[i].into});
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kReduceScatter, plan),
              HasSubstr("data[2] of rank 2 contains input[3] of rank 1"));
}

TEST(PlantedBugTest, DeadlockByOrder) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) {  // Sends before it receives.
      Lane& lane = schedule.lanes[0];
      std::rotate(lane.begin(), lane.begin() + 6, lane.end());
      lane[0].left = lane[1].left = lane[2].left = Input(0);
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              AllOf(HasSubstr("deadlock"),
                    HasSubstr("rank 0, 0.0 (send input[0] to 1, tag 1) waits "
                              "for rank 1, 0.1")));
}

TEST(PlantedBugTest, DeadlockByAfter) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Exchange(request);
    schedule.lanes[0][1].after = {.lane = 1, .step = 1};
    schedule.lanes[1][0].after = {.lane = 0, .step = 2};
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllToAll, plan), HasSubstr("deadlock"));
}

TEST(PlantedBugTest, TagClash) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    for (Step& step : schedule.lanes[0]) step.tag = 0;
    if (request.rank == 1) {
      schedule.lanes[0].push_back(schedule.lanes[0][0]);
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("rank 1, 0.2 (send input[0] to 0, tag 0) uses the tag "
                        "of rank 1, 0.0"));
}

TEST(PlantedBugTest, UnmatchedSend) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 3) schedule.lanes[0].pop_back();
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("(send data[0] to 3, tag 1) has no receive with its "
                        "tag at rank 3"));
}

TEST(PlantedBugTest, UnmatchedReceive) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) schedule.lanes[0].pop_back();
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("rank 3, 0.1 (recv data[0] from 0, tag 1) has no send "
                        "with its tag at rank 0"));
}

TEST(PlantedBugTest, OverwritingWhatIsLent) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = FanOut(request);
    if (request.rank == request.root) {  // Copies first and during sends.
      Lane& lane = schedule.lanes[0];
      std::rotate(lane.begin(), lane.end() - 1, lane.end());
      for (Step& step : lane) {
        if (step.kind == StepKind::kSend) step.left = Data(0);
      }
      Step again = lane[0];
      again.after = {.lane = 0, .step = 1};
      schedule.lanes.push_back({again});
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kBroadcast, plan),
              HasSubstr("race: rank 0, 1.0 (data[0] = input[0], after 0.1) may "
                        "write data[0] while rank 0, 0.2 (send data[0] to 2, "
                        "tag 0) lends it"));
}

TEST(PlantedBugTest, LanesThatRace) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) {  // Moves the last sum to another lane.
      Lane& lane = schedule.lanes[0];
      const Lane last(lane.begin() + 4, lane.begin() + 6);
      lane.erase(lane.begin() + 4, lane.begin() + 6);
      lane[4].after = {.lane = 1, .step = 1};
      schedule.lanes.push_back(last);
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              AllOf(HasSubstr("race: rank 0"), HasSubstr("data[0]")));
}

TEST(PlantedBugTest, OverwritingTheInputInPlace) {
  EXPECT_THAT(Wrong(CollectiveType::kAllToAll, Exchange), IsEmpty());
  for (InPlace in_place : {InPlace::kAll, InPlace::kEvenRanks}) {
    EXPECT_THAT(
        Wrong(CollectiveType::kAllToAll, Exchange, {.in_place = in_place}),
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
  EXPECT_THAT(Wrong(CollectiveType::kPermute, plan, request), IsEmpty());
  request.in_place = InPlace::kAll;
  EXPECT_THAT(Wrong(CollectiveType::kPermute, plan, request),
              HasSubstr("data[0] of rank 0 holds input[0] of rank 0; wants "
                        "input[0] of rank 1"));
}

TEST(PlantedBugTest, NeverFinished) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    for (Step& step : schedule.lanes[0]) step.finish = false;
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("data[0] of rank 0 was never finished"));
}

TEST(PlantedBugTest, FinishedTwice) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 2) {
      schedule.lanes[0].push_back({.kind = StepKind::kCopy,
                                   .finish = true,
                                   .into = Data(0),
                                   .left = Data(0)});
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("data[0] of rank 2 was finished more than once"));
}

TEST(PlantedBugTest, FinishedTooEarly) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) {
      schedule.lanes[0][3].finish = true;
      schedule.lanes[0][5].finish = false;
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("was reduced after it was finished"));
}

TEST(PlantedBugTest, FinishedThoughNothingIsReduced) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = FanOut(request);
    if (request.rank == request.root) schedule.lanes[0].back().finish = true;
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kBroadcast, plan),
              HasSubstr("had the final op applied"));
}

TEST(PlantedBugTest, ReducedThoughNothingIsToBe) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = FanOut(request);
    if (request.rank == request.root) {
      Step& last = schedule.lanes[0].back();
      last.kind = StepKind::kReduce;
      last.right = Input(0);
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kBroadcast, plan),
              HasSubstr("data[0] of rank 0 was reduced"));
}

TEST(PlantedBugTest, WrongRoot) {
  const auto plan = [](const PlanRequest& request) {
    PlanRequest wrong = request;
    wrong.root = 0;
    return FanOut(wrong);
  };
  EXPECT_THAT(Wrong(CollectiveType::kBroadcast, plan, {.root = 0}), IsEmpty());
  EXPECT_THAT(Wrong(CollectiveType::kBroadcast, plan, {.root = 2}),
              HasSubstr("rank 0, 0.0 (send input[0] to 1, tag 0) uses "
                        "input[0], which the rank does not have"));
}

TEST(PlantedBugTest, ReadOfUndefinedScratch) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) schedule.lanes[0][3].right = Scratch(0, 9);
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("rank 0, 0.3 (data[0] = data[0] (+) scratch[0].9) "
                        "reads scratch[0].9, to which nothing was written"));
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

TEST(PlantedBugTest, AReductionOfManyThatDoesNotWaitForOne) {
  Algorithm algorithm = Serving(CollectiveType::kAllReduce, StarAtOnce);
  algorithm.traits.preserves_rank_order = true;
  EXPECT_THAT(Wrong(algorithm), IsEmpty());
  algorithm.plan = [](const PlanRequest& request) {
    Schedule schedule = StarAtOnce(request);
    if (request.rank == 0) schedule.lanes[0][2].after = {};
    return schedule;
  };
  EXPECT_THAT(Wrong(algorithm), HasSubstr("scratch[0].3"));
}

TEST(PlantedBugTest, AReductionOfManyWithOneTwice) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = StarAtOnce(request);
    if (request.rank == 0) schedule.lanes[0][3].more[1] = Scratch(0, 2);
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("contains input[0] of rank 2 twice"));
}

TEST(PlantedBugTest, PeerOutOfRange) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 3) schedule.lanes[0][0].peer = 4;
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("has a peer outside 0..3"));
}

TEST(PlantedBugTest, ChunkOutOfRange) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 3) schedule.lanes[0][1].into = Data(1);
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("uses data[1], which the rank does not have"));
}

TEST(PlantedBugTest, OutputNeverWritten) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Exchange(request);
    schedule.lanes[1].pop_back();
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllToAll, plan),
              HasSubstr("data[0] of rank 0 was never written"));
}

TEST(PlantedBugTest, WrongOrderOfReduction) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 0) {
      std::swap(schedule.lanes[0][3].left, schedule.lanes[0][3].right);
    }
    return schedule;
  };
  Algorithm algorithm = Serving(CollectiveType::kAllReduce, plan);
  EXPECT_THAT(Wrong(algorithm), IsEmpty());
  algorithm.traits.preserves_rank_order = true;
  EXPECT_THAT(Wrong(algorithm), HasSubstr("was not reduced in rank order"));
  algorithm.plan = Star;
  EXPECT_THAT(Wrong(algorithm), IsEmpty());
}

TEST(PlantedBugTest, BarrierThatDoesNotHold) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Meet(request);
    if (request.rank == 0) {  // Sends to rank 1 before rank 3 comes.
      std::swap(schedule.lanes[0][2], schedule.lanes[0][3]);
    }
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kBarrier, plan),
              HasSubstr("rank 1 can leave before rank 3 has come"));
}

TEST(PlantedBugTest, BarrierThatSomebodySkips) {
  const auto plan = [](const PlanRequest&) {
    return Schedule{.num_chunks = 1};
  };
  EXPECT_THAT(Wrong(CollectiveType::kBarrier, plan),
              HasSubstr("rank 0 can leave before rank 1 has come"));
}

TEST(PlantedBugTest, InPlaceSendsSomethingElse) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    for (Step& step : schedule.lanes[0]) step.tag += request.in_place ? 10 : 0;
    return schedule;
  };
  EXPECT_THAT(
      Wrong(CollectiveType::kAllReduce, plan, {.in_place = InPlace::kAll}),
      IsEmpty());
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan,
                    {.in_place = InPlace::kEvenRanks}),
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
      Wrong(CollectiveType::kPermute, plan,
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
    EXPECT_THAT(Wrong(CollectiveType::kPermute, plan, request), IsEmpty());
  }
  request.in_place = InPlace::kOddRanks;
  EXPECT_THAT(Wrong(CollectiveType::kPermute, plan, request),
              HasSubstr("deadlock"));
}

TEST(PlantedBugTest, NumberOfChunksThatIsNoMultiple) {
  const auto plan = [](const PlanRequest&) {
    return Schedule{.num_chunks = 6};
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllGather, plan),
              HasSubstr("in 6 chunks; wants a multiple"));
}

TEST(PlantedBugTest, RanksThatCutDifferently) {
  const auto plan = [](const PlanRequest& request) {
    Schedule schedule = Star(request);
    if (request.rank == 2) schedule.num_chunks = 2;
    return schedule;
  };
  EXPECT_THAT(Wrong(CollectiveType::kAllReduce, plan),
              HasSubstr("rank 2 cuts into 2 chunks, rank 0 into 1"));
}

TEST(VerifierTest, RefusesRequestsTheAlgorithmCannotPlan) {
  const auto error = [](const Algorithm& algorithm, const VerifyCase& request) {
    const absl::Status status = Verify(algorithm, request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const Algorithm broadcast = Serving(CollectiveType::kBroadcast, FanOut);
  EXPECT_THAT(error(broadcast, {.type = CollectiveType::kReduce}),
              HasSubstr("cannot plan reduce on 1x1, root 0: the algorithm does "
                        "not serve this collective"));
  EXPECT_THAT(error(broadcast, {.type = CollectiveType::kBroadcast, .root = 1}),
              HasSubstr("no such root"));
  EXPECT_THAT(error(broadcast, {.type = CollectiveType::kBroadcast,
                                .subdiv_offsets = {0}}),
              HasSubstr("offsets"));
  const Algorithm permute = Serving(CollectiveType::kPermute, Star);
  EXPECT_THAT(
      error(permute, {.type = CollectiveType::kPermute, .permutation = {1}}),
      HasSubstr("not a permutation"));
  EXPECT_THAT(error(Serving(CollectiveType::kBarrier, nullptr),
                    {.type = CollectiveType::kBarrier}),
              HasSubstr("no plan function"));
}

TEST(VerifierTest, SymbolicallyGivesTheExactSum) {
  const auto run = Symbolically(Serving(CollectiveType::kAllReduce, Star),
                                {.layout = GroupLayout::Uniform(1, 3)});
  ASSERT_TRUE(run.ok()) << run.status();
  const ExpressionId sum = run->outputs[2][0];
  ASSERT_NE(sum, kUndefined);
  EXPECT_EQ(sum, run->outputs[0][0]);
  EXPECT_EQ(run->expressions[sum].kind, ExpressionKind::kFinish);
  EXPECT_EQ(run->expressions.Leaves(sum, 10).size(), 3u);
}

TEST(VerifierTest, CasesReadLikeSentences) {
  EXPECT_EQ(ToString(VerifyCase{.layout = GroupLayout::Uniform(2, 4),
                                .type = CollectiveType::kReduce,
                                .root = 3,
                                .in_place = InPlace::kEvenRanks}),
            "reduce on 2x4, root 3, in place on even ranks");
  EXPECT_EQ(ToString(VerifyCase{.layout = GroupLayout::Uniform(2, 1),
                                .in_place = InPlace::kOddRanks}),
            "all_reduce on 2x1, in place on odd ranks");
  EXPECT_EQ(ToString(VerifyCase{.layout = GroupLayout::Uniform(1, 3),
                                .type = CollectiveType::kPermute,
                                .permutation = {1, 2, 0},
                                .subdiv_offsets = {0, -1}}),
            "permute on 1x3, permutation 1,2,0, offsets 0,-1");
  EXPECT_EQ(ToString(VerifyCase{.layout = GroupLayout::Uniform(1, 3),
                                .subdiv_offsets = std::vector<int>(64, -1)}),
            "all_reduce on 1x3, 64 subdivisions, offsets -1");
}

}  // namespace verifier_test
}  // namespace tutti
