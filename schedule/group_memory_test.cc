#include "schedule/group_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace group_memory_test {

GroupMemory Memory(CollectiveType type, int num_ranks, int num_chunks,
                   bool uneven = false) {
  return {.type = type,
          .num_ranks = num_ranks,
          .root = 1,
          .num_chunks = num_chunks,
          .uneven = uneven,
          .in_place = std::vector<bool>(num_ranks)};
}

TEST(GroupMemoryTest, WholeBuffersHaveAllChunksOnBothSides) {
  const GroupMemory memory = Memory(CollectiveType::kAllReduce, 3, 5);
  EXPECT_TRUE(memory.CheckNumChunks().ok());
  for (int chunk = 0; chunk < 5; ++chunk) {
    EXPECT_TRUE(memory.InputHas(2, chunk));
    EXPECT_TRUE(memory.OutputHas(2, chunk));
  }
  EXPECT_FALSE(memory.InputHas(2, 5));
  EXPECT_FALSE(memory.InputHas(2, -1));
}

TEST(GroupMemoryTest, BlocksBelongToTheirRanks) {
  const GroupMemory gather = Memory(CollectiveType::kAllGather, 3, 6);
  EXPECT_FALSE(gather.InputHas(1, 1));
  EXPECT_TRUE(gather.InputHas(1, 2));
  EXPECT_TRUE(gather.InputHas(1, 3));
  EXPECT_TRUE(gather.OutputHas(1, 0));
  const GroupMemory scatter = Memory(CollectiveType::kReduceScatter, 3, 6);
  EXPECT_TRUE(scatter.InputHas(1, 1));
  EXPECT_FALSE(scatter.OutputHas(1, 1));
  EXPECT_TRUE(scatter.OutputHas(1, 2));
}

TEST(GroupMemoryTest, OnlyTheRootHasWhatOnlyTheRootNeeds) {
  EXPECT_TRUE(Memory(CollectiveType::kReduce, 3, 1).OutputHas(1, 0));
  EXPECT_FALSE(Memory(CollectiveType::kReduce, 3, 1).OutputHas(0, 0));
  EXPECT_FALSE(Memory(CollectiveType::kBroadcast, 3, 1).InputHas(0, 0));
  EXPECT_FALSE(Memory(CollectiveType::kGather, 3, 3).OutputHas(0, 0));
  EXPECT_FALSE(Memory(CollectiveType::kScatter, 3, 3).InputHas(0, 0));
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

TEST(GroupMemoryTest, BarrierHasATokenAndNoOutput) {
  const GroupMemory memory = Memory(CollectiveType::kBarrier, 3, 1);
  EXPECT_TRUE(memory.Has(0, Input(0)));
  EXPECT_TRUE(memory.Has(0, Scratch(0, 2)));
  EXPECT_FALSE(memory.Has(0, Data(0)));
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

}  // namespace group_memory_test
}  // namespace tutti
