#include "implementations/parts/rank_cube.h"

#include <gtest/gtest.h>

namespace tutti {
namespace rank_cube_test {

TEST(RankCubeTest, LooksLikeThePicture) {
  const RankCube cube(5);
  EXPECT_EQ(cube.num_dimensions(), 2);
  EXPECT_EQ(cube.num_corners(), 4);
  EXPECT_EQ(cube.num_shared(), 1);
  EXPECT_EQ(cube.NumRanksAt(0), 2);
  EXPECT_EQ(cube.RankAt(0, 0), 0);
  EXPECT_EQ(cube.RankAt(0, 1), 1);
  for (int corner = 1; corner < 4; ++corner) {
    EXPECT_EQ(cube.NumRanksAt(corner), 1);
    EXPECT_EQ(cube.RankAt(corner, 0), corner + 1);
    EXPECT_EQ(cube.RankAt(corner, 1), corner + 1);
  }
}

TEST(RankCubeTest, OneRankHasNoNeighbours) {
  const RankCube cube(1);
  EXPECT_EQ(cube.num_dimensions(), 0);
  EXPECT_EQ(cube.NumRanksAt(0), 1);
  EXPECT_EQ(cube.CornerOf(0), 0);
}

TEST(RankCubeTest, AcrossADimensionIsTheSameSeatIfThereAreTwo) {
  const RankCube cube(5);  // Corners {0,1}, 2, 3, 4.
  EXPECT_EQ(cube.Across(0, /*dimension=*/0), 2);
  EXPECT_EQ(cube.Across(1, /*dimension=*/1), 3);
  EXPECT_EQ(cube.Across(2, /*dimension=*/0), 0);
  EXPECT_EQ(cube.Across(4, /*dimension=*/0), 3);
  EXPECT_EQ(cube.PartnerOf(4), 4);
}

TEST(RankCubeTest, SeatsOfAllCornersAreTheRanksInOrder) {
  for (int size = 1; size <= 130; ++size) {
    const RankCube cube(size);
    int rank = 0;
    for (int corner = 0; corner < cube.num_corners(); ++corner) {
      for (int seat = 0; seat < cube.NumRanksAt(corner); ++seat, ++rank) {
        EXPECT_EQ(cube.RankAt(corner, seat), rank);
        EXPECT_EQ(cube.CornerOf(rank), corner);
        EXPECT_EQ(cube.SeatOf(rank), seat);
        EXPECT_EQ(cube.PartnerOf(rank), cube.RankAt(corner, 1 - seat));
      }
    }
    EXPECT_EQ(rank, size);
  }
}

}  // namespace rank_cube_test
}  // namespace tutti
