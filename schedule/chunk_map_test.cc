#include "schedule/chunk_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/collective/params_test_data.h"

namespace tutti {
namespace chunk_map_test {

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
  }

  int size() const { return size_; }
  int num_chunks() const { return num_chunks_; }
  int pieces() const { return num_chunks_ / size_; }
  const CollectiveParams& params(int rank) const { return *params_[rank]; }
  const ChunkMap& of(int rank) const { return maps_[rank]; }

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
};

// Expects the chunks to cover [0, size) without gaps, in order.
void ExpectTiles(const ChunkMap& map, Space space, int num_chunks,
                 int64_t size) {
  int64_t end = 0;
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    const Slot slot = {space, chunk, 0};
    if (!map.Has(slot)) continue;
    const Range range = map.RangeOf(slot);
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
    const bool may_be_uneven = type == CollectiveType::kAllGather ||
                               type == CollectiveType::kGather ||
                               type == CollectiveType::kAllToAll;
    for (int64_t rows : {0, 1, 2, 7, 1001}) {
      for (bool uneven : {false, true}) {
        if (uneven && !may_be_uneven) continue;
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
      ExpectTiles(maps.of(rank), Space::kInput, maps.num_chunks(),
                  maps.params(rank).input_shape.num_elements());
      ExpectTiles(maps.of(rank), Space::kData, maps.num_chunks(),
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
      const ChunkMap& map = maps.of(rank);
      for (int chunk = 0; chunk < maps.num_chunks(); ++chunk) {
        const bool is_own = !MovesBlocks(type) || chunk / maps.pieces() == rank;
        const bool has_input =
            (HasInput(type, rank, kRoot) || is_barrier) && (!gathers || is_own);
        const bool has_data =
            HasOutput(type, rank, kRoot) && (!scatters || is_own);
        EXPECT_EQ(map.Has(Input(chunk)), has_input) << chunk;
        EXPECT_EQ(map.Has(Data(chunk)), has_data) << chunk;
        EXPECT_EQ(map.Has(Scratch(chunk, 3)), has_input || has_data) << chunk;
      }
    }
  });
}

TEST_P(ChunkMapCasesTest, ThereAreNoChunksOutsideTheirNumber) {
  ForAllSizes([](const Maps& maps) {
    for (int rank = 0; rank < maps.size(); ++rank) {
      for (int chunk : {-1, maps.num_chunks(), 1 << 30}) {
        EXPECT_FALSE(maps.of(rank).Has(Input(chunk)));
        EXPECT_FALSE(maps.of(rank).Has(Data(chunk)));
        EXPECT_FALSE(maps.of(rank).Has(Scratch(chunk)));
      }
      EXPECT_FALSE(maps.of(rank).Has(Scratch(0, /*bank=*/-1)));
    }
  });
}

TEST_P(ChunkMapCasesTest, ScratchHasTheSizeOfItsChunk) {
  ForAllSizes([](const Maps& maps) {
    for (int rank = 0; rank < maps.size(); ++rank) {
      const ChunkMap& map = maps.of(rank);
      for (int chunk = 0; chunk < maps.num_chunks(); ++chunk) {
        if (!map.Has(Scratch(chunk))) continue;
        const Slot like = map.Has(Input(chunk)) ? Input(chunk) : Data(chunk);
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
              EXPECT_EQ(map.Has(slot), map.Has(Input(first, count)) ||
                                           map.Has(Data(first, count)));
            } else {
              EXPECT_EQ(map.Has(slot), map.Has(slot.At(0)) && map.Has(last));
            }
            if (!map.Has(slot)) continue;
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
          if (!maps.of(from).Has(sent) || !maps.of(to).Has(received)) continue;
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
  EXPECT_FALSE(map.Has(Data(0)));
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

}  // namespace chunk_map_test
}  // namespace tutti
