#ifndef TUTTI_IMPLEMENTATIONS_PARTS_HALVING_TREE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_HALVING_TREE_H_

#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/rank_cube.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Recursive halving as one tree for each block. Corners of the cube of ranks
// (rank_cube.h) exchange partial sums with their neighbours, along one
// dimension after the other. A corner sends the sums of blocks whose owners are
// on the other side of the dimension, and keeps the others. On its way to its
// owner, a block therefore crosses the lowest dimensions first. Its partial
// sums always cover consecutive ranks.
//
//   block 0:  0 <- 1        block 1:  1 <- 0       block 2:  2 <- 3
//             0 <- 2 <- 3             1 <- 3 <- 2            2 <- 0 <- 1
//
// The two ranks of a shared corner divide its blocks between them, and blocks
// of single ranks in halves. They first send each other their part. Even then a
// rank sends each block but its own once, up a tree of height ceil(log2 n). It
// receives at most n - 1 + log2 n blocks. Immutable.
class HalvingTrees {
 public:
  // A rank's neighbours in the tree of one block.
  struct Place {
    int parent = -1;            // -1: the owner, rank `block`.
    std::vector<int> children;  // In the order of their sums.
  };

  // REQUIRES: size >= 1, the number of ranks.
  explicit HalvingTrees(int size) : cube_(size) {}

  Place PlaceOf(int rank, int block) const;

  const RankCube& cube() const { return cube_; }

  // Returns the seat whose ranks have a place in the tree of `block`. If no
  // corner is shared, seat 0.
  int SeatFor(int block) const;

  // Blocks in an order in which those that travel together are consecutive: by
  // seat, then by the bits of their owner's corner, the lowest first.
  struct Blocks {
    int first = 0;  // Place in this order.
    int count = 0;
  };

  // Returns the blocks of `seat` whose owners are on corners equal to `corner`
  // in the first `num_dimensions` dimensions.
  Blocks BlocksOf(int corner, int num_dimensions, int seat) const;

 private:
  int NumBlocks(int corner, int num_dimensions, int seat) const;

  // Returns the rank of a corner that has its place in the tree of `block`.
  int RankFor(int corner, int block) const;

  const RankCube cube_;
};

// Appends the reduction of `block` over `rank` and the ranks below it, in the
// order of ranks, with the block as tag. Returns the slot of the sum: `into`,
// or the input if there are no children. The root's sum is finished.
Slot AddSums(const HalvingTrees::Place& place, int rank, int block, Slot into,
             ScheduleBuilder::LaneBuilder& lane);

// Traffic of all blocks up their trees, or down again. A message is one block
// or, `in_ranges`, all blocks for one rank.
Traffic HalvingTraffic(const CostQuery& query, bool in_ranges);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_HALVING_TREE_H_
