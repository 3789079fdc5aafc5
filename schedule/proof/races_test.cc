#include "schedule/proof/races.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedule/proof/symbolic.h"
#include "tutti/schedule.h"

namespace tutti {
namespace races_test {

using testing::AllOf;
using testing::HasSubstr;

struct Setting {
  int num_ranks = 1;
  int num_chunks = 1;
  std::vector<bool> in_place;
};

// Returns the race among the lanes that `build` adds for each rank, or "".
template <typename Build>
std::string RaceIn(const Setting& setting, Build build) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < setting.num_ranks; ++rank) {
    ScheduleBuilder builder(setting.num_chunks);
    build(rank, builder);
    schedules.push_back(builder.Build());
  }
  const auto plan = GroupPlan::Create({.type = CollectiveType::kAllReduce,
                                       .num_ranks = setting.num_ranks,
                                       .num_chunks = setting.num_chunks,
                                       .in_place = setting.in_place},
                                      schedules);
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

}  // namespace races_test
}  // namespace tutti
