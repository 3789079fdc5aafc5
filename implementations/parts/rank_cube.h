#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RANK_CUBE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RANK_CUBE_H_

namespace tutti {

// The ranks of a group on the corners of a cube, for algorithms that
// communicate along one dimension after the other. The number of corners is the
// largest power of two that is not above the number of ranks. Each remaining
// rank shares one of the first corners with its neighbour. Corners are in the
// order of ranks.
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

  // Number of corners with two ranks; these corners come first.
  int num_shared() const { return num_shared_; }

  int CornerOf(int rank) const;

  int NumRanksAt(int corner) const { return corner < num_shared_ ? 2 : 1; }

  // Returns seat 0 or 1 of the rank in its corner; 0 if it is alone.
  int SeatOf(int rank) const { return rank < 2 * num_shared_ ? rank % 2 : 0; }

  // Returns the rank on a seat. A rank alone on its corner has both seats.
  int RankAt(int corner, int seat) const;

  // Returns the other rank of the corner, or `rank` if it is alone.
  int PartnerOf(int rank) const;

  // Returns the rank on the same seat of the neighbouring corner.
  int Across(int rank, int dimension) const;

 private:
  int num_dimensions_ = 0;
  int num_shared_;
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RANK_CUBE_H_
