#include "implementations/parts/halving.h"

#include <algorithm>

namespace tutti {

absl::InlinedVector<int, 2> Halving::SeatsOf(int rank) const {
  if (cube_.num_shared() == 0) return {0};
  if (cube_.PartnerOf(rank) != rank) return {cube_.SeatOf(rank)};
  return {0, 1};
}

Halving::Sizes Halving::SizesOf(int rank, int seat, int dimension) const {
  if (dimension < 0) {
    return {cube_.PartnerOf(rank), PlacesOf(1 - seat).count,
            PlacesOf(seat).count};
  }
  const int corner = cube_.CornerOf(rank);
  const int across = corner ^ (1 << dimension);
  return {cube_.RankAt(across, seat), NumBlocks(across, dimension + 1, seat),
          NumBlocks(corner, dimension + 1, seat)};
}

std::vector<Halving::Exchange> Halving::ExchangesOf(int rank, int seat) const {
  std::vector<Exchange> exchanges;
  Places kept = PlacesOf(seat);
  if (FirstDimension(rank) < 0) {
    exchanges.push_back({cube_.PartnerOf(rank), PlacesOf(1 - seat), kept});
  }
  for (int dimension = 0; dimension < cube_.num_dimensions(); ++dimension) {
    const Sizes sizes = SizesOf(rank, seat, dimension);
    Places sent = {kept.first, sizes.num_sent};
    kept.count = sizes.num_kept;
    const bool is_above = (cube_.CornerOf(rank) >> dimension & 1) != 0;
    (is_above ? kept : sent).first += is_above ? sent.count : kept.count;
    exchanges.push_back({sizes.peer, sent, kept});
  }
  return exchanges;
}

int Halving::PlaceOf(int block) const {
  const int corner = cube_.CornerOf(block);
  // Blocks of ranks alone on their corners: the first half belongs to seat 0.
  const int index = corner - cube_.num_shared();
  const int num_alone = cube_.num_corners() - cube_.num_shared();
  int seat = cube_.SeatOf(block);
  if (index >= 0 && cube_.num_shared() > 0) {
    seat = 2 * index < num_alone ? 0 : 1;
  }
  const auto exchanges = ExchangesOf(block, seat);
  return exchanges.empty() ? 0 : exchanges.back().kept.first;
}

int Halving::NumBlocks(int corner, int num_dimensions, int seat) const {
  const int offset = corner & ((1 << num_dimensions) - 1);
  // Counts such corners below `end`.
  const auto below = [&](int end) {
    return end <= offset ? 0 : ((end - offset - 1) >> num_dimensions) + 1;
  };
  const int shared = cube_.num_shared();
  const int all = below(cube_.num_corners());
  if (shared == 0) return seat == 0 ? all : 0;
  const int half = shared + (cube_.num_corners() - shared + 1) / 2;
  return seat == 0 ? below(half) : below(shared) + all - below(half);
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
