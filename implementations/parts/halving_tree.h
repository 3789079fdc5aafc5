#ifndef TUTTI_IMPLEMENTATIONS_PARTS_HALVING_TREE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_HALVING_TREE_H_

#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/rank_cube.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Recursive halving as one tree for each block. With neighbours on the cube of
// ranks (rank_cube.h), along one dimension after the other, a corner exchanges
// partial sums: it gives away those of the blocks whose owners are on the other
// side of that dimension, and keeps those of its own side. So a block takes, on
// its way to its owner, the first dimensions first, and its partial sums are
// always those of consecutive ranks.
//
//   block 0:  0 <- 1        block 1:  1 <- 0       block 2:  2 <- 3
//             0 <- 2 <- 3             1 <- 3 <- 2            2 <- 0 <- 1
//
// The two ranks of a shared corner divide its blocks between them, those of
// others in halves, and first bring each other their part. So even then a rank
// sends each block but its own once, up a tree of height ceil(log2 n), and
// receives n - 1 + log2 n blocks at most. Immutable.
class HalvingTrees {
 public:
  // A rank's neighbours in the tree of one block.
  struct Place {
    int parent = -1;  // None for the owner, the rank with the block's number.
    std::vector<int> children;  // In the order in which they have their sums.
  };

  // REQUIRES: size >= 1, the number of ranks.
  explicit HalvingTrees(int size) : cube_(size) {}

  Place PlaceOf(int rank, int block) const;

 private:
  // Which of the ranks of a corner stands for it in the tree of `block`.
  int RankFor(int corner, int block) const;

  const RankCube cube_;
};

// Appends the reduction of what `rank` and those below it have of `block`, in
// the order of ranks, with the block as tag. Returns where the sum is: in
// `into`, or in the input where there is nothing below. The root's is finished.
Slot AddSums(const HalvingTrees::Place& place, int rank, int block, Slot into,
             ScheduleBuilder::LaneBuilder& lane);

// What sends all blocks up their trees, or down again.
Traffic HalvingTraffic(const CostQuery& query);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_HALVING_TREE_H_
