#include "implementations/parts/halving.h"

#include <algorithm>

namespace tutti {

std::vector<int> Halving::SeatsOf(int rank) const {
  if (cube_.num_shared() == 0) return {0};
  if (cube_.PartnerOf(rank) != rank) return {cube_.SeatOf(rank)};
  return {0, 1};
}

Halving::Exchange Halving::ExchangeOf(int rank, int seat, int dimension) const {
  if (dimension < 0) {
    return {.peer = cube_.PartnerOf(rank),
            .sent = PlacesOf(0, 0, 1 - seat),
            .kept = PlacesOf(0, 0, seat)};
  }
  const int corner = cube_.CornerOf(rank);
  const int across = corner ^ (1 << dimension);
  return {.peer = cube_.RankAt(across, seat),
          .sent = PlacesOf(across, dimension + 1, seat),
          .kept = PlacesOf(corner, dimension + 1, seat)};
}

std::vector<Halving::Exchange> Halving::ExchangesOf(int rank, int seat) const {
  std::vector<Exchange> exchanges;
  for (int dimension = FirstDimension(rank); dimension < cube_.num_dimensions();
       ++dimension) {
    exchanges.push_back(ExchangeOf(rank, seat, dimension));
  }
  return exchanges;
}

int Halving::PlaceOf(int block) const {
  const int corner = cube_.CornerOf(block);
  // Blocks of ranks alone on their corners: the first half belongs to seat 0.
  const int index = corner - cube_.num_shared();
  const int num_alone = cube_.num_corners() - cube_.num_shared();
  int seat = cube_.SeatOf(block);
  if (index >= 0 && cube_.num_shared() > 0)
    seat = 2 * index < num_alone ? 0 : 1;
  return PlacesOf(corner, cube_.num_dimensions(), seat).first;
}

int Halving::NumBlocks(int corner, int num_dimensions, int seat) const {
  const int step = 1 << num_dimensions;
  const int offset = corner % step;
  // Counts such corners below `end`.
  const auto below = [&](int end) {
    return end <= offset ? 0 : (end - offset - 1) / step + 1;
  };
  const int shared = cube_.num_shared();
  const int all = below(cube_.num_corners());
  if (shared == 0) return seat == 0 ? all : 0;
  const int half = shared + (cube_.num_corners() - shared + 1) / 2;
  return seat == 0 ? below(half) : below(shared) + all - below(half);
}

Halving::Places Halving::PlacesOf(int corner, int num_dimensions,
                                  int seat) const {
  int first = seat == 0 ? 0 : NumBlocks(0, 0, /*seat=*/0);
  for (int dimension = 0; dimension < num_dimensions; ++dimension) {
    const int bit = 1 << dimension;
    if ((corner & bit) == 0) continue;
    first += NumBlocks(corner ^ bit, dimension + 1, seat);
  }
  return {first, NumBlocks(corner, num_dimensions, seat)};
}

Traffic HalvingTraffic(const CostQuery& query, bool in_ranges) {
  const RankCube cube(query.layout.size());
  Traffic traffic;
  int blocks = query.layout.size();  // Blocks a rank has sums of.
  const auto add_round = [&](auto peer_of) {
    const int given_away = blocks / 2;
    // Both ranks of a shared corner divide its messages.
    const int leaving = CrossingsOf(query, peer_of).leaving;
    const int messages = in_ranges ? std::min(given_away, 1) : given_away;
    traffic.AddAtOnce(BothWays(query, leaving), messages, given_away);
    blocks -= given_away;
  };
  if (cube.num_shared() > 0) {
    add_round([&](int rank) { return cube.PartnerOf(rank); });
  }
  for (int dimension = 0; dimension < cube.num_dimensions(); ++dimension) {
    add_round([&](int rank) { return cube.Across(rank, dimension); });
  }
  return traffic;
}

}  // namespace tutti
