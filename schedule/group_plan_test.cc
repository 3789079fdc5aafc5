#include "schedule/group_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/collective/params_test_data.h"
#include "schedule/chunk_map.h"
#include "schedule/group_memory.h"
#include "schedule/proof/symbolic.h"
#include "schedule/step_depth.h"
#include "schedule/step_order.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/schedule.h"

namespace tutti {
namespace group_plan_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// --- group memory ------------------------------------------------------------

GroupMemory Memory(CollectiveType type, int num_ranks, int num_chunks,
                   bool uneven = false) {
  return {.type = type,
          .num_ranks = num_ranks,
          .root = 1,
          .num_chunks = num_chunks,
          .uneven = uneven,
          .in_place = std::vector<bool>(num_ranks)};
}

TEST(GroupMemoryTest, ScratchHasTheChunksOfEitherSideInAnyBank) {
  const GroupMemory gather = Memory(CollectiveType::kGather, 3, 3);
  EXPECT_TRUE(gather.Has(0, Scratch(0, 7)));
  EXPECT_FALSE(gather.Has(0, Scratch(1)));
  EXPECT_FALSE(gather.Has(0, Scratch(0, -1)));
  EXPECT_TRUE(gather.Has(1, Scratch(2)));
  EXPECT_FALSE(gather.Has(1, {Space::kData, 0, /*bank=*/1}));
}

TEST(GroupMemoryTest, ARangeIsThereIfOneBufferHasAllItsChunks) {
  const GroupMemory gather = Memory(CollectiveType::kAllGather, 3, 6);
  EXPECT_TRUE(gather.Has(1, Data(1, 5)));
  EXPECT_FALSE(gather.Has(1, Data(1, 6)));
  EXPECT_FALSE(gather.Has(1, Data(1, 0)));
  EXPECT_TRUE(gather.Has(1, Input(2, 2)));
  EXPECT_FALSE(gather.Has(1, Input(2, 3)));
  EXPECT_FALSE(gather.Has(1, Input(1, 2)));
  EXPECT_TRUE(gather.Has(1, Scratch(1, 3, 4)));
}

TEST(GroupMemoryTest, RangesOfOneSizeHaveTheSameClassesInOrder) {
  const GroupMemory even = Memory(CollectiveType::kAllGather, 3, 6);
  EXPECT_TRUE(even.HaveOneSize(0, Data(0, 3), 1, Data(2, 3)));
  EXPECT_FALSE(even.HaveOneSize(0, Data(0, 3), 0, Data(1, 3)));
  EXPECT_FALSE(even.HaveOneSize(0, Data(0, 3), 0, Data(0, 2)));
  const GroupMemory pairs =
      Memory(CollectiveType::kAllToAll, 3, 3, /*uneven=*/true);
  EXPECT_TRUE(pairs.HaveOneSize(0, Input(1, 2), 0, Input(1, 2)));
  EXPECT_FALSE(pairs.HaveOneSize(0, Input(2, 1), 2, Data(0, 2)));
  EXPECT_FALSE(pairs.HaveOneSize(0, Input(1, 2), 1, Data(0, 2)));
}

TEST(GroupMemoryTest, InPlaceInputAndOutputAreTheSameBytes) {
  GroupMemory memory = Memory(CollectiveType::kReduceScatter, 2, 2);
  EXPECT_EQ(memory.Canonical(1, Data(1)), Data(1));
  memory.in_place = {false, true};
  EXPECT_EQ(memory.Canonical(1, Data(1)), Input(1));
  EXPECT_EQ(memory.Canonical(0, Data(0)), Data(0));
  EXPECT_EQ(memory.Canonical(1, Scratch(1)), Scratch(1));
}

TEST(GroupMemoryTest, ChunksOfUnevenBlocksDifferInSize) {
  const auto same = [](const GroupMemory& memory, int a, int b) {
    return memory.SizeClass(0, Data(a)) == memory.SizeClass(0, Data(b));
  };
  const GroupMemory even = Memory(CollectiveType::kAllGather, 3, 6);
  EXPECT_TRUE(same(even, 1, 3));   // Second pieces of two blocks.
  EXPECT_FALSE(same(even, 1, 2));  // Pieces differ by an element.
  const GroupMemory uneven =
      Memory(CollectiveType::kAllGather, 3, 6, /*uneven=*/true);
  EXPECT_FALSE(same(uneven, 1, 3));
}

TEST(GroupMemoryTest, PairsOfAnUnevenAllToAllDifferInSize) {
  GroupMemory memory = Memory(CollectiveType::kAllToAll, 3, 3, /*uneven=*/true);
  const auto same = [&](int rank, Slot slot, int other_rank, Slot other) {
    return memory.SizeClass(rank, slot) == memory.SizeClass(other_rank, other);
  };
  EXPECT_TRUE(same(0, Input(2), 2, Data(0)));
  EXPECT_FALSE(same(0, Input(2), 0, Data(2)));
  EXPECT_FALSE(same(0, Input(2), 0, Input(1)));
  memory.in_place[0] = true;
  EXPECT_TRUE(same(0, Input(2), 0, Data(2)));
  EXPECT_TRUE(same(2, Input(0), 0, Data(2)));
  EXPECT_FALSE(same(1, Input(2), 1, Data(2)));
}

TEST(GroupMemoryTest, RejectsNumbersOfChunksThatCannotBe) {
  EXPECT_FALSE(Memory(CollectiveType::kAllReduce, 3, 0).CheckNumChunks().ok());
  EXPECT_FALSE(Memory(CollectiveType::kAllGather, 3, 4).CheckNumChunks().ok());
  EXPECT_FALSE(Memory(CollectiveType::kAllToAll, 3, 6).CheckNumChunks().ok());
  EXPECT_FALSE(Memory(CollectiveType::kBarrier, 3, 3).CheckNumChunks().ok());
}

// --- chunk map ---------------------------------------------------------------

TEST(CutTest, PartsTileTheWholeAndDifferByAtMostOne) {
  for (int64_t num_elements : {0, 1, 2, 7, 8, 1001}) {
    for (int num_parts = 1; num_parts <= 9; ++num_parts) {
      int64_t end = 0;
      for (int i = 0; i < num_parts; ++i) {
        const Range part = Cut(num_elements, num_parts, i);
        EXPECT_EQ(part.begin, end);
        EXPECT_GE(part.size, num_elements / num_parts);
        EXPECT_LE(part.size, num_elements / num_parts + 1);
        end += part.size;
      }
      EXPECT_EQ(end, num_elements);
    }
  }
}

TEST(CutTest, HugeBuffersAreCutExactly) {
  const int64_t huge = (int64_t{1} << 62) + 1;
  const Range last = Cut(huge, 65536, 65535);
  EXPECT_EQ(last.begin + last.size, huge);
  EXPECT_EQ(last.size, int64_t{1} << 46);
}

bool MovesBlocks(CollectiveType type) {
  return type == CollectiveType::kAllGather ||
         type == CollectiveType::kGather ||
         type == CollectiveType::kReduceScatter ||
         type == CollectiveType::kScatter || type == CollectiveType::kAllToAll;
}

constexpr int kRoot = 0;

struct Case {
  CollectiveType type;
  int group_size;
  int pieces;  // Per block, or of the whole buffer.
  int64_t rows;
  bool uneven;
};

// The chunk maps of all members of one collective.
class Maps {
 public:
  explicit Maps(const Case& c) : type_(c.type), size_(c.group_size) {
    const bool is_fixed =
        type_ == CollectiveType::kAllToAll || type_ == CollectiveType::kBarrier;
    num_chunks_ = (MovesBlocks(type_) ? size_ : 1) * (is_fixed ? 1 : c.pieces);
    const CollInstanceParams instance = InstanceOf(c);
    for (int rank = 0; rank < size_; ++rank) {
      params_.push_back(ParamsOf(instance, size_, rank));
      maps_.emplace_back(*params_.back(), num_chunks_);
    }
    memory_ = {.type = type_,
               .num_ranks = size_,
               .root = kRoot,
               .num_chunks = num_chunks_,
               .in_place = std::vector<bool>(size_)};
  }

  int size() const { return size_; }
  int num_chunks() const { return num_chunks_; }
  int pieces() const { return num_chunks_ / size_; }
  const CollectiveParams& params(int rank) const { return *params_[rank]; }
  const ChunkMap& of(int rank) const { return maps_[rank]; }
  bool Has(int rank, const Slot& slot) const { return memory_.Has(rank, slot); }

 private:
  static CollInstanceParams InstanceOf(const Case& c) {
    const bool divides = c.type != CollectiveType::kAllGather &&
                         c.type != CollectiveType::kGather &&
                         MovesBlocks(c.type);
    CollInstanceParams instance = {
        .type = c.type,
        .shape = ShapeOf({c.rows * (divides ? c.group_size : 1), 3}),
        .root = kRoot};
    for (int i = 0; i < c.group_size; ++i) {
      instance.permutation.push_back((i + 1) % c.group_size);
    }
    if (!c.uneven) return instance;
    const int num_rows = c.type == CollectiveType::kAllToAll
                             ? c.group_size * c.group_size
                             : c.group_size;
    for (int i = 0; i < num_rows; ++i) {
      instance.rows.push_back((c.rows + 5 * i) % 7);
    }
    return instance;
  }

  const CollectiveType type_;
  const int size_;
  int num_chunks_;
  std::vector<std::shared_ptr<const CollectiveParams>> params_;
  std::vector<ChunkMap> maps_;
  GroupMemory memory_;
};

// Expects the chunks to cover [0, size) without gaps, in order.
void ExpectTiles(const Maps& maps, int rank, Space space, int64_t size) {
  int64_t end = 0;
  for (int chunk = 0; chunk < maps.num_chunks(); ++chunk) {
    const Slot slot = {space, chunk, 0};
    if (!maps.Has(rank, slot)) continue;
    const Range range = maps.of(rank).RangeOf(slot);
    EXPECT_EQ(range.begin, end) << ToString(slot);
    EXPECT_GE(range.size, 0) << ToString(slot);
    end = range.begin + range.size;
  }
  EXPECT_EQ(end, size);
}

class ChunkMapCasesTest
    : public testing::TestWithParam<std::tuple<CollectiveType, int, int>> {
 protected:
  // Calls `check` with the maps of each size, with even and with uneven rows.
  template <typename Check>
  static void ForAllSizes(Check check) {
    const auto [type, group_size, pieces] = GetParam();
    for (int64_t rows : {0, 1, 2, 7, 1001}) {
      for (bool uneven : {false, true}) {
        if (uneven && !MovesBlocks(type)) continue;
        SCOPED_TRACE(absl::StrCat(rows, " rows", uneven ? ", uneven" : ""));
        check(Maps({type, group_size, pieces, rows, uneven}));
      }
    }
  }
};

TEST_P(ChunkMapCasesTest, ChunksTileTheBuffersExactly) {
  const CollectiveType type = std::get<0>(GetParam());
  if (type == CollectiveType::kBarrier) return;  // A barrier has no buffers.
  ForAllSizes([](const Maps& maps) {
    for (int rank = 0; rank < maps.size(); ++rank) {
      ExpectTiles(maps, rank, Space::kInput,
                  maps.params(rank).input_shape.num_elements());
      ExpectTiles(maps, rank, Space::kData,
                  maps.params(rank).output_shape.num_elements());
    }
  });
}

TEST_P(ChunkMapCasesTest, MembersHaveTheChunksOfTheirPart) {
  const CollectiveType type = std::get<0>(GetParam());
  const bool gathers =
      type == CollectiveType::kAllGather || type == CollectiveType::kGather;
  const bool scatters = type == CollectiveType::kReduceScatter ||
                        type == CollectiveType::kScatter;
  const bool is_barrier = type == CollectiveType::kBarrier;
  ForAllSizes([&](const Maps& maps) {
    for (int rank = 0; rank < maps.size(); ++rank) {
      for (int chunk = 0; chunk < maps.num_chunks(); ++chunk) {
        const bool is_own = !MovesBlocks(type) || chunk / maps.pieces() == rank;
        const bool has_input =
            (HasInput(type, rank, kRoot) || is_barrier) && (!gathers || is_own);
        const bool has_data =
            HasOutput(type, rank, kRoot) && (!scatters || is_own);
        EXPECT_EQ(maps.Has(rank, Input(chunk)), has_input) << chunk;
        EXPECT_EQ(maps.Has(rank, Data(chunk)), has_data) << chunk;
        EXPECT_EQ(maps.Has(rank, Scratch(chunk, 3)), has_input || has_data)
            << chunk;
      }
    }
  });
}

TEST_P(ChunkMapCasesTest, ThereAreNoChunksOutsideTheirNumber) {
  ForAllSizes([](const Maps& maps) {
    for (int rank = 0; rank < maps.size(); ++rank) {
      for (int chunk : {-1, maps.num_chunks(), 1 << 30}) {
        EXPECT_FALSE(maps.Has(rank, Input(chunk)));
        EXPECT_FALSE(maps.Has(rank, Data(chunk)));
        EXPECT_FALSE(maps.Has(rank, Scratch(chunk)));
      }
      EXPECT_FALSE(maps.Has(rank, Scratch(0, /*bank=*/-1)));
    }
  });
}

TEST_P(ChunkMapCasesTest, ScratchHasTheSizeOfItsChunk) {
  ForAllSizes([](const Maps& maps) {
    for (int rank = 0; rank < maps.size(); ++rank) {
      const ChunkMap& map = maps.of(rank);
      for (int chunk = 0; chunk < maps.num_chunks(); ++chunk) {
        if (!maps.Has(rank, Scratch(chunk))) continue;
        const Slot like =
            maps.Has(rank, Input(chunk)) ? Input(chunk) : Data(chunk);
        const Range expected = {0, map.RangeOf(like).size};
        EXPECT_EQ(map.RangeOf(Scratch(chunk)), expected) << chunk;
        EXPECT_EQ(map.RangeOf(Scratch(chunk, 2)), expected) << chunk;
      }
    }
  });
}

TEST_P(ChunkMapCasesTest, ARangeIsItsChunksSideBySide) {
  ForAllSizes([](const Maps& maps) {
    for (int rank = 0; rank < maps.size(); ++rank) {
      const ChunkMap& map = maps.of(rank);
      const int n = maps.num_chunks();
      for (int first = 0; first < n; ++first) {
        for (int count = 1; count <= n - first + 1; ++count) {
          for (const Slot& slot : {Input(first, count), Data(first, count),
                                   Scratch(first, 2, count)}) {
            const Slot last = slot.At(count - 1);
            if (slot.space == Space::kScratch) {
              EXPECT_EQ(maps.Has(rank, slot),
                        maps.Has(rank, Input(first, count)) ||
                            maps.Has(rank, Data(first, count)));
            } else {
              EXPECT_EQ(maps.Has(rank, slot),
                        maps.Has(rank, slot.At(0)) && maps.Has(rank, last));
            }
            if (!maps.Has(rank, slot)) continue;
            int64_t size = 0;
            for (int i = 0; i < count; ++i) {
              size += map.RangeOf(slot.At(i)).size;
            }
            const Range expected = {map.RangeOf(slot.At(0)).begin, size};
            EXPECT_EQ(map.RangeOf(slot), expected) << ToString(slot);
          }
        }
      }
    }
  });
}

// A chunk has the same size at its sender and at its receiver.
TEST_P(ChunkMapCasesTest, MembersAgreeOnTheSizeOfAChunk) {
  const CollectiveType type = std::get<0>(GetParam());
  const bool exchanges = type == CollectiveType::kAllToAll;
  ForAllSizes([&](const Maps& maps) {
    for (int from = 0; from < maps.size(); ++from) {
      for (int to = 0; to < maps.size(); ++to) {
        for (int chunk = 0; chunk < maps.num_chunks(); ++chunk) {
          const Slot sent = Input(exchanges ? to : chunk);
          const Slot received = Data(exchanges ? from : chunk);
          if (!maps.Has(from, sent) || !maps.Has(to, received)) continue;
          EXPECT_EQ(maps.of(from).RangeOf(sent).size,
                    maps.of(to).RangeOf(received).size)
              << ToString(sent) << " of " << from << " to " << to;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ChunkMapCasesTest,
    testing::Combine(testing::ValuesIn(kAllCollectiveTypes),
                     testing::Values(1, 2, 3, 5),  // Ranks.
                     testing::Values(1, 2, 4)),    // Pieces.
    [](const auto& info) {
      return absl::StrCat(std::string(Name(std::get<0>(info.param))), "_",
                          std::get<1>(info.param), "ranks_",
                          std::get<2>(info.param), "pieces");
    });

TEST(ChunkMapTest, ABarrierHasATokenOfOneByte) {
  const ChunkMap map(
      *ParamsOf({.type = CollectiveType::kBarrier, .shape = ShapeOf({9})},
                /*group_size=*/4, /*rank=*/2),
      /*num_chunks=*/1);
  EXPECT_EQ(map.RangeOf(Input(0)), (Range{0, 1}));
  EXPECT_EQ(map.RangeOf(Scratch(0)), (Range{0, 1}));
}

TEST(ChunkMapTest, PiecesOfUnevenBlocksLieInTheirBlocks) {
  const CollInstanceParams gather = {.type = CollectiveType::kAllGather,
                                     .shape = ShapeOf({3, 2}),
                                     .rows = {3, 0, 2}};
  const ChunkMap map(*ParamsOf(gather, 3, /*rank=*/2), /*num_chunks=*/6);
  EXPECT_EQ(map.RangeOf(Data(0)), (Range{0, 3}));
  EXPECT_EQ(map.RangeOf(Data(1)), (Range{3, 3}));
  EXPECT_EQ(map.RangeOf(Data(2)), (Range{6, 0}));
  EXPECT_EQ(map.RangeOf(Data(3)), (Range{6, 0}));
  EXPECT_EQ(map.RangeOf(Data(4)), (Range{6, 2}));
  EXPECT_EQ(map.RangeOf(Data(5)), (Range{8, 2}));
  EXPECT_EQ(map.RangeOf(Input(4)), (Range{0, 2}));
  EXPECT_EQ(map.RangeOf(Input(5)), (Range{2, 2}));
}

// --- group plan --------------------------------------------------------------

Step Sends(int peer, int tag, Slot from, StepRef after = {}) {
  return {.kind = StepKind::kSend,
          .left = from,
          .peer = peer,
          .tag = tag,
          .after = after};
}

Step Receives(int peer, int tag, Slot into) {
  return {.kind = StepKind::kRecv, .into = into, .peer = peer, .tag = tag};
}

Step Copies(Slot into, Slot from) {
  return {.kind = StepKind::kCopy, .into = into, .left = from};
}

Schedule Lanes(std::vector<Lane> lanes, int num_chunks = 2) {
  return {.num_chunks = num_chunks, .lanes = std::move(lanes)};
}

absl::StatusOr<GroupPlan> Create(const std::vector<Schedule>& schedules) {
  return GroupPlan::Create({.type = CollectiveType::kAllReduce,
                            .num_ranks = 2,
                            .num_chunks = schedules[0].num_chunks},
                           schedules);
}

void ExpectError(const std::vector<Schedule>& schedules,
                 const std::string& text) {
  EXPECT_THAT(Create(schedules), IsInvalidArgument(text));
}

// Expects the error `text` if rank 0 runs `step` alone.
void ExpectStepError(const Step& step, const std::string& text) {
  ExpectError({Lanes({{step}}), Lanes({})}, text);
}

TEST(GroupPlanTest, JoinsSendsWithReceivesAndNumbersStepsThrough) {
  const auto plan =
      Create({Lanes({{Copies(Data(1), Input(1)), Sends(1, 5, Input(0))},
                     {Receives(1, 5, Data(0))}}),
              Lanes({{Receives(0, 5, Data(0))}, {Sends(0, 5, Input(0))}})})
          .value();
  EXPECT_EQ(plan.num_steps(), 5);
  EXPECT_EQ(plan.num_lanes(), 4);
  EXPECT_EQ(plan.first_lane(1), 2);
  EXPECT_EQ(plan.partner(0), -1);
  EXPECT_EQ(plan.partner(1), 3);
  EXPECT_EQ(plan.partner(3), 1);
  EXPECT_EQ(plan.partner(2), 4);
  EXPECT_EQ(plan.rank_of(3), 1);
  EXPECT_EQ(plan.Describe(4), "rank 1, 1.0 (send input[0] to 0, tag 5)");
}

TEST(GroupPlanTest, CopyToItselfTouchesNothing) {
  const Schedule copies = Lanes({{Copies(Data(1), Input(1))}});
  const auto plan = GroupPlan::Create({.type = CollectiveType::kAllReduce,
                                       .num_ranks = 2,
                                       .num_chunks = 2,
                                       .in_place = {true, false}},
                                      {copies, copies})
                        .value();
  EXPECT_THAT(plan.AccessesOf(0).writes, testing::IsEmpty());
  EXPECT_THAT(plan.AccessesOf(0).reads, testing::IsEmpty());
  EXPECT_THAT(plan.AccessesOf(1).writes, testing::ElementsAre(Data(1)));
}

TEST(GroupPlanTest, AReductionReadsAllItsOperands) {
  Step reduce = {.kind = StepKind::kReduce,
                 .into = Data(0),
                 .left = Input(0),
                 .right = Scratch(0),
                 .more = {Scratch(0, 1), Data(0)}};
  const Schedule first = Lanes({{reduce, {.kind = StepKind::kWait}}});
  const GroupMemory memory = {
      .type = CollectiveType::kAllReduce, .num_ranks = 2, .num_chunks = 2};
  const auto plan = GroupPlan::Create(memory, {first, Lanes({})}).value();
  EXPECT_THAT(
      plan.AccessesOf(0).reads,
      testing::ElementsAre(Input(0), Scratch(0), Scratch(0, 1), Data(0)));
  EXPECT_TRUE(plan.AccessesOf(1).reads.empty());
  EXPECT_TRUE(plan.AccessesOf(1).writes.empty());

  reduce.more[1] = Input(1);
  ExpectStepError(reduce, "combines data[0] and input[1], which may differ");
}

TEST(GroupPlanTest, RejectsPeersThatAreNotThere) {
  ExpectStepError(Sends(2, 0, Input(0)),
                  "rank 0, 0.0 (send input[0] to 2, tag 0) has a peer outside");
  ExpectStepError(Receives(-1, 0, Data(0)), "has a peer outside 0..1");
}

TEST(GroupPlanTest, RejectsSendingToOneself) {
  ExpectStepError(Sends(0, 0, Input(0)), "is its own peer");
}

TEST(GroupPlanTest, RejectsTagsThatAreOutOfBounds) {
  ExpectStepError(Sends(1, -1, Input(0)), "has a tag outside 0..1073741823");
  ExpectStepError(Sends(1, kNumTags, Input(0)), "has a tag outside");
}

TEST(GroupPlanTest, RejectsSlotsTheRankDoesNotHave) {
  ExpectStepError(Copies(Data(2), Input(1)), "uses data[2]");
  ExpectStepError(Copies(Data(1), Input(-1)), "uses input[-1]");
  ExpectStepError(Copies(Scratch(1, -1), Input(1)), "uses scratch[1].-1");
}

TEST(GroupPlanTest, RejectsWritingTheInput) {
  ExpectStepError(Copies(Input(0), Data(0)), "writes the input");
}

TEST(GroupPlanTest, RejectsWritingAPartOfAnOperand) {
  const GroupMemory memory = {
      .type = CollectiveType::kAllGather, .num_ranks = 3, .num_chunks = 3};
  std::vector<Schedule> schedules(3, Lanes({}, 3));
  schedules[0] = Lanes({{Copies(Data(0, 2), Data(0, 2))}}, 3);
  EXPECT_TRUE(GroupPlan::Create(memory, schedules).ok());
  schedules[0] = Lanes({{Copies(Data(0, 2), Data(1, 2))}}, 3);
  EXPECT_THAT(GroupPlan::Create(memory, schedules),
              IsInvalidArgument("writes data[0-1], a part of data[1-2]"));
}

TEST(GroupPlanTest, RejectsCombiningChunksOfDifferentSize) {
  ExpectStepError(Copies(Data(0), Input(1)), "may differ in size");
  ExpectStepError(Copies(Data(0, 2), Input(0)), "may differ in size");
  ExpectError(
      {Lanes({{Sends(1, 0, Input(0))}}), Lanes({{Receives(0, 0, Data(1))}})},
      "may differ in size from rank 0, 0.0");
}

TEST(GroupPlanTest, RejectsTheFinalOpOnATransfer) {
  Step step = Receives(1, 0, Data(0));
  step.finish = true;
  ExpectStepError(step, "cannot apply the final op");
}

TEST(GroupPlanTest, RejectsWaitingForStepsThatAreNotThere) {
  for (const StepRef after : {StepRef{1, 0}, StepRef{0, 1}, StepRef{0, -1}}) {
    ExpectStepError(Sends(1, 0, Input(0), after),
                    "waits for a step that does not exist");
  }
}

TEST(GroupPlanTest, RejectsWaitingForOneself) {
  ExpectStepError(Sends(1, 0, Input(0), {.lane = 0, .step = 0}),
                  "waits for itself");
}

TEST(GroupPlanTest, RejectsTransfersWithoutPartner) {
  ExpectStepError(Sends(1, 3, Input(0)),
                  "(send input[0] to 1, tag 3) has no receive with its tag at "
                  "rank 1");
  ExpectStepError(Receives(1, 3, Data(0)), "has no send with its tag");
  ExpectError(
      {Lanes({{Sends(1, 3, Input(0))}}), Lanes({{Receives(0, 4, Data(0))}})},
      "has no receive with its tag");
}

TEST(GroupPlanTest, RejectsATagUsedTwiceInOneDirection) {
  const Lane sends = {Sends(1, 3, Input(0)), Sends(1, 3, Input(0))};
  ExpectError({Lanes({sends}), Lanes({{Receives(0, 3, Data(0))}})},
              "rank 0, 0.1 (send input[0] to 1, tag 3) uses the tag of rank 0, "
              "0.0");
  const Lane receives = {Receives(0, 3, Data(0)), Receives(0, 3, Data(0))};
  ExpectError({Lanes({{Sends(1, 3, Input(0))}}), Lanes({receives})},
              "uses the tag of rank 1, 0.0");
}

TEST(GroupPlanTest, RejectsRanksThatCutDifferently) {
  ExpectError({Lanes({}, 2), Lanes({}, 3)}, "rank 1 cuts into 3 chunks");
}

TEST(GroupPlanTest, RejectsAMissingSchedule) {
  ExpectError({Lanes({})}, "1 schedules for 2 ranks");
}

// --- step depth --------------------------------------------------------------

// Depths of all steps: rank by rank, lane by lane, in order.
std::vector<int> DepthsOf(const std::vector<Schedule>& schedules) {
  const int num_ranks = static_cast<int>(schedules.size());
  const auto plan =
      GroupPlan::Create({.num_ranks = num_ranks,
                         .num_chunks = schedules[0].num_chunks,
                         .in_place = std::vector<bool>(schedules.size())},
                        schedules)
          .value();
  const auto run = RunSymbolically(plan).value();
  return StepDepths(plan, run.completion_order);
}

TEST(StepDepthTest, NothingToDoHasNoDepths) {
  EXPECT_THAT(DepthsOf({ScheduleBuilder(1).Build()}), IsEmpty());
}

TEST(StepDepthTest, OnlyTransfersTakeTime) {
  ScheduleBuilder sender(1);
  auto send = sender.AddLane();
  send.Copy(Data(0), Input(0));
  send.Send(1, /*tag=*/0, Data(0));
  send.Copy(Scratch(0), Input(0));
  ScheduleBuilder receiver(1);
  auto recv = receiver.AddLane();
  recv.Recv(0, /*tag=*/0, Data(0));
  recv.Copy(Scratch(0), Data(0));
  EXPECT_THAT(DepthsOf({sender.Build(), receiver.Build()}),
              ElementsAre(0, 1, 1, /* rank 1: */ 1, 1));
}

TEST(StepDepthTest, LanesRunAtOnce) {
  ScheduleBuilder sender(2);
  ScheduleBuilder receiver(2);
  for (int chunk : {0, 1}) {
    sender.AddLane().Send(1, chunk, Input(chunk));
    receiver.AddLane().Recv(0, chunk, Data(chunk));
  }
  EXPECT_THAT(DepthsOf({sender.Build(), receiver.Build()}),
              ElementsAre(1, 1, 1, 1));
}

TEST(StepDepthTest, AfterOrdersLanes) {
  ScheduleBuilder sender(2);
  sender.AddLane().Send(1, 0, Input(0));
  sender.AddLane().Send(1, 1, Input(1), /*after=*/{0, 0});
  ScheduleBuilder receiver(2);
  receiver.AddLane().Recv(0, 0, Data(0));
  receiver.AddLane().Recv(0, 1, Data(1));
  EXPECT_THAT(DepthsOf({sender.Build(), receiver.Build()}),
              ElementsAre(1, 2, 1, 2));
}

TEST(StepDepthTest, APassedOnChunkIsDeeperByOneOnEachRank) {
  constexpr int kNumRanks = 4;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < kNumRanks; ++rank) {
    ScheduleBuilder builder(1);
    auto lane = builder.AddLane();
    if (rank > 0) lane.Recv(rank - 1, 0, Data(0));
    if (rank < kNumRanks - 1) {
      lane.Send(rank + 1, 0, rank == 0 ? Input(0) : Data(0));
    }
    schedules.push_back(builder.Build());
  }
  EXPECT_THAT(DepthsOf(schedules), ElementsAre(1, 1, 2, 2, 3, 3));
}

TEST(StepDepthTest, ASenderThatIsAheadWaitsForItsReceiver) {
  ScheduleBuilder first(1);
  first.AddLane().Send(2, 0, Input(0));
  ScheduleBuilder second(1);
  second.AddLane().Send(2, 0, Input(0));
  ScheduleBuilder receiver(1);
  auto lane = receiver.AddLane();
  lane.Recv(0, 0, Scratch(0));
  lane.Recv(1, 0, Data(0));
  EXPECT_THAT(DepthsOf({first.Build(), second.Build(), receiver.Build()}),
              ElementsAre(1, 2, 1, 2));
}

// --- step order --------------------------------------------------------------

// Random schedules that can run. Steps are made in a possible order of
// completion and wait only for steps made earlier.
class RandomGroup {
 public:
  RandomGroup(int num_ranks, int num_chunks, int num_steps, uint32_t seed)
      : num_ranks_(num_ranks), random_(seed), schedules_(num_ranks) {
    for (Schedule& schedule : schedules_) {
      schedule.num_chunks = num_chunks;
      schedule.lanes.resize(kLanes);
    }
    for (int i = 0; i < num_steps; ++i) {
      const int chunk = Below(num_chunks);
      const int count = 1 + Below(num_chunks - chunk);
      if (Below(2) == 0) {
        AddCopy(chunk, count);
      } else {
        AddTransfer(chunk, count, /*tag=*/i);
      }
    }
  }

  const std::vector<Schedule>& schedules() const { return schedules_; }

 private:
  static constexpr int kLanes = 3;

  int Below(int limit) { return static_cast<int>(random_() % limit); }

  void AddCopy(int chunk, int count) {
    Append(Below(num_ranks_), {.kind = StepKind::kCopy,
                               .into = Scratch(chunk, Below(2), count),
                               .left = Input(chunk, count)});
  }

  void AddTransfer(int chunk, int count, int tag) {
    const int from = Below(num_ranks_);
    const int to = (from + 1 + Below(num_ranks_ - 1)) % num_ranks_;
    Append(from, {.kind = StepKind::kSend,
                  .left = Input(chunk, count),
                  .peer = to,
                  .tag = tag});
    Append(to, {.kind = StepKind::kRecv,
                .into = Scratch(chunk, Below(2), count),
                .peer = from,
                .tag = tag});
  }

  void Append(int rank, Step step) {
    std::vector<Lane>& lanes = schedules_[rank].lanes;
    const int awaited = Below(kLanes);
    if (Below(3) == 0 && !lanes[awaited].empty()) {
      step.after = {awaited, Below(static_cast<int>(lanes[awaited].size()))};
    }
    lanes[Below(kLanes)].push_back(step);
  }

  const int num_ranks_;
  std::mt19937 random_;
  std::vector<Schedule> schedules_;
};

bool HasClass(const GroupPlan& plan, int step, int64_t size_class) {
  return absl::c_linear_search(plan.size_classes(step), size_class);
}

// Computes the answers of StepOrder the slow way: by the transitive closure
// over the start and the end of every step, for one size class.
class Closure {
 public:
  Closure(const GroupPlan& plan, int64_t size_class)
      : plan_(plan),
        reaches_(2 * plan.num_steps(),
                 std::vector<bool>(2 * plan.num_steps())) {
    for (int step = 0; step < plan.num_steps(); ++step) {
      AddEdges(step, HasClass(plan, step, size_class));
    }
    const size_t size = reaches_.size();
    for (size_t via = 0; via < size; ++via) {
      for (size_t from = 0; from < size; ++from) {
        if (!reaches_[from][via]) continue;
        for (size_t to = 0; to < size; ++to) {
          if (reaches_[via][to]) reaches_[from][to] = true;
        }
      }
    }
  }

  bool IsBefore(int first, int second) const {
    const bool lends = plan_.step(first).kind == StepKind::kSend;
    return EndIsBefore(first, second) ||
           (lends && EndIsBefore(plan_.partner(first), second));
  }

  bool StartIsBeforeEndOf(int step, int rank) const {
    for (int last = 0; last < plan_.num_steps(); ++last) {
      if (plan_.rank_of(last) == rank && reaches_[Start(step)][End(last)]) {
        return true;
      }
    }
    return false;
  }

 private:
  static int Start(int step) { return 2 * step; }
  static int End(int step) { return 2 * step + 1; }

  void AddEdges(int step, bool counts) {
    reaches_[Start(step)][Start(step)] = true;
    reaches_[Start(step)][End(step)] = true;
    if (step > plan_.lane(plan_.lane_of(step)).first_step) {
      reaches_[End(step - 1)][Start(step)] = true;
    }
    if (plan_.after(step) != -1) {
      reaches_[End(plan_.after(step))][Start(step)] = true;
    }
    if (counts && plan_.partner(step) != -1) {
      reaches_[Start(step)][End(plan_.partner(step))] = true;
    }
  }

  bool EndIsBefore(int first, int second) const {
    if (reaches_[End(first)][Start(second)]) return true;
    return plan_.step(second).kind == StepKind::kRecv &&
           reaches_[End(first)][Start(plan_.partner(second))];
  }

  const GroupPlan& plan_;
  std::vector<std::vector<bool>> reaches_;
};

class StepOrderTest : public testing::TestWithParam<int> {};

void CheckGroup(const GroupPlan& plan, const SymbolicRun& run) {
  StepOrder order(plan, run.completion_order);
  for (int chunk = 0; chunk < plan.memory().num_chunks; ++chunk) {
    const Closure closure(plan, chunk);
    for (size_t i = 0; i < run.completion_order.size(); ++i) {
      for (size_t j = i + 1; j < run.completion_order.size(); ++j) {
        const int first = run.completion_order[i];
        const int second = run.completion_order[j];
        if (plan.rank_of(first) != plan.rank_of(second) ||
            !HasClass(plan, first, chunk) || !HasClass(plan, second, chunk)) {
          continue;
        }
        EXPECT_EQ(order.IsBefore(first, second, chunk),
                  closure.IsBefore(first, second))
            << plan.Describe(first) << " and " << plan.Describe(second);
      }
    }
  }
}

TEST_P(StepOrderTest, AgreesWithTheTransitiveClosure) {
  const RandomGroup group(/*num_ranks=*/4, /*num_chunks=*/3, /*num_steps=*/40,
                          /*seed=*/GetParam());
  const auto plan =
      GroupPlan::Create(
          {.type = CollectiveType::kAllReduce, .num_ranks = 4, .num_chunks = 3},
          group.schedules())
          .value();
  const auto run = RunSymbolically(plan).value();
  CheckGroup(plan, run);
}

TEST_P(StepOrderTest, AwaitedRanksAgreeWithTheTransitiveClosure) {
  const RandomGroup group(/*num_ranks=*/6, /*num_chunks=*/1, /*num_steps=*/12,
                          /*seed=*/GetParam());
  const auto plan =
      GroupPlan::Create(
          {.type = CollectiveType::kAllReduce, .num_ranks = 6, .num_chunks = 1},
          group.schedules())
          .value();
  const auto run = RunSymbolically(plan).value();
  StepOrder order(plan, run.completion_order);
  const Closure closure(plan, /*size_class=*/0);
  for (int rank = 0; rank < 6; ++rank) {
    std::vector<bool> begun(6);
    begun[rank] = true;
    for (int step = 0; step < plan.num_steps(); ++step) {
      if (closure.StartIsBeforeEndOf(step, rank)) {
        begun[plan.rank_of(step)] = true;
      }
    }
    int missing = -1;
    for (int other = 5; other >= 0; --other) {
      if (!begun[other]) missing = other;
    }
    EXPECT_EQ(order.RankNotAwaitedBy(rank), missing) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StepOrderTest, testing::Range(1, 101));

}  // namespace group_plan_test
}  // namespace tutti
