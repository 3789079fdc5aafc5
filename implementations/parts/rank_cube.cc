#include "implementations/parts/rank_cube.h"

namespace tutti {

RankCube::RankCube(int size) {
  while (size >> (num_dimensions_ + 1) > 0) ++num_dimensions_;
  num_shared_ = size - num_corners();
}

int RankCube::CornerOf(int rank) const {
  return rank < 2 * num_shared_ ? rank / 2 : rank - num_shared_;
}

int RankCube::RankAt(int corner, int seat) const {
  return corner < num_shared_ ? 2 * corner + seat : corner + num_shared_;
}

int RankCube::PartnerOf(int rank) const {
  return RankAt(CornerOf(rank), 1 - SeatOf(rank));
}

int RankCube::Across(int rank, int dimension) const {
  return RankAt(CornerOf(rank) ^ (1 << dimension), SeatOf(rank));
}

}  // namespace tutti
