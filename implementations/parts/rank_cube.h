#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RANK_CUBE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RANK_CUBE_H_

namespace tutti {

// The ranks of a group on the corners of a cube, for algorithms that talk along
// one dimension after the other. There are as many corners as the largest power
// of two that has a rank for each; the ranks left over share one of the first
// corners with a neighbour. Corners are in the order of ranks.
//
//   rank    0 1  2  3  4        Dimension 0: {0,1} with 2, and 3 with 4;
//   corner  '0'  1  2  3        dimension 1: {0,1} with 3, and 2 with 4.
//
// Immutable.
class RankCube {
 public:
  // REQUIRES: size >= 1, the number of ranks.
  explicit RankCube(int size);

  // Corners `c` and `c ^ (1 << dimension)` are neighbours.
  int num_dimensions() const { return num_dimensions_; }
  int num_corners() const { return 1 << num_dimensions_; }

  // Corners that have two ranks; they come first.
  int num_shared() const { return num_shared_; }

  int CornerOf(int rank) const;

  int NumRanksAt(int corner) const { return corner < num_shared_ ? 2 : 1; }

  // A rank has seat 0 or 1 of its corner, 0 if it is there alone.
  int SeatOf(int rank) const { return rank < 2 * num_shared_ ? rank % 2 : 0; }

  // The only rank of a corner has both seats here.
  int RankAt(int corner, int seat) const;

  // The other rank of the same corner; `rank` itself if there is none.
  int PartnerOf(int rank) const;

  // The rank on the same seat of the neighbouring corner.
  int Across(int rank, int dimension) const;

 private:
  int num_dimensions_ = 0;
  int num_shared_;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RANK_CUBE_H_
