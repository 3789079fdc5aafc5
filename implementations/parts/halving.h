#ifndef TUTTI_IMPLEMENTATIONS_PARTS_HALVING_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_HALVING_H_

#include <vector>

#include "absl/container/inlined_vector.h"
#include "implementations/parts/cost.h"
#include "implementations/parts/rank_cube.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Exchanges of recursive halving. Corners of the cube of ranks (rank_cube.h)
// exchange partial sums with their neighbours, along one dimension after the
// other. A corner sends the sums of blocks whose owners are on the other side
// of the dimension, and keeps the others. On its way to its owner, a block
// therefore crosses the lowest dimensions first. Its partial sums always cover
// consecutive ranks.
//
//   block 0:  0 <- 1        block 1:  1 <- 0       block 2:  2 <- 3
//             0 <- 2 <- 3             1 <- 3 <- 2            2 <- 0 <- 1
//
// The two ranks of a shared corner divide its blocks between them, and blocks
// of single ranks in halves: each seat has its blocks. They first send each
// other their part; this is dimension -1. Even then a rank sends each block but
// its own once, and receives at most n - 1 + log2 n blocks. Immutable.
class Halving {
 public:
  // Places of blocks in an order in which blocks that travel together are
  // consecutive: by seat, then by the bits of their owner's corner, the lowest
  // first.
  struct Places {
    int first = 0;
    int count = 0;

    bool Has(int place) const {
      return place >= first && place < first + count;
    }
  };

  struct Exchange {
    int peer = 0;
    Places sent;
    Places kept;
  };

  // REQUIRES: size >= 1, the number of ranks.
  explicit Halving(int size) : cube_(size) {}

  const RankCube& cube() const { return cube_; }

  // Returns the seats whose blocks the rank exchanges: its own or, if it is
  // alone on its corner, both. If no corner is shared, seat 0.
  absl::InlinedVector<int, 2> SeatsOf(int rank) const;

  // Returns the first dimension along which the rank exchanges blocks.
  int FirstDimension(int rank) const {
    return cube_.PartnerOf(rank) == rank ? 0 : -1;
  }

  // Numbers of blocks of a seat that a rank exchanges along a dimension.
  struct Sizes {
    int peer = 0;
    int num_sent = 0;
    int num_kept = 0;
  };

  // REQUIRES: the seat is one of the rank's, and FirstDimension(rank) <=
  // dimension < num_dimensions.
  Sizes SizesOf(int rank, int seat, int dimension) const;

  // Returns all exchanges of the blocks of one of the rank's seats, in order.
  std::vector<Exchange> ExchangesOf(int rank, int seat) const;

  int PlaceOf(int block) const;

 private:
  // Returns the number of blocks of `seat` whose owners are on corners equal to
  // `corner` in the first `num_dimensions` dimensions.
  int NumBlocks(int corner, int num_dimensions, int seat) const;

  // Returns all places of the blocks of a seat.
  Places PlacesOf(int seat) const {
    const int first = seat == 0 ? 0 : NumBlocks(0, 0, /*seat=*/0);
    return {first, NumBlocks(0, 0, seat)};
  }

  const RankCube cube_;
};

// Traffic of all blocks to their owners, or back again. A message is one block
// or, `in_ranges`, all blocks for one rank.
Traffic HalvingTraffic(const CostQuery& query, bool in_ranges);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_HALVING_H_
