#include "implementations/parts/halving_tree.h"

#include <algorithm>

namespace tutti {

int HalvingTrees::SeatFor(int block) const {
  const int owner = cube_.CornerOf(block);
  if (cube_.num_shared() == 0) return 0;
  if (cube_.NumRanksAt(owner) == 2) return cube_.SeatOf(block);
  // Blocks of ranks alone on their corners: the first half belongs to seat 0.
  const int num_alone = cube_.num_corners() - cube_.num_shared();
  return 2 * (owner - cube_.num_shared()) < num_alone ? 0 : 1;
}

int HalvingTrees::RankFor(int corner, int block) const {
  return cube_.RankAt(corner, SeatFor(block));
}

int HalvingTrees::NumBlocks(int corner, int num_dimensions, int seat) const {
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

HalvingTrees::Blocks HalvingTrees::BlocksOf(int corner, int num_dimensions,
                                            int seat) const {
  int first = seat == 0 ? 0 : NumBlocks(0, 0, /*seat=*/0);
  for (int dimension = 0; dimension < num_dimensions; ++dimension) {
    const int bit = 1 << dimension;
    if ((corner & bit) == 0) continue;
    first += NumBlocks(corner ^ bit, dimension + 1, seat);
  }
  return {first, NumBlocks(corner, num_dimensions, seat)};
}

HalvingTrees::Place HalvingTrees::PlaceOf(int rank, int block) const {
  const int corner = cube_.CornerOf(rank);
  Place place;
  const int speaker = RankFor(corner, block);
  if (speaker != rank) {
    place.parent = speaker;
    return place;
  }
  if (cube_.NumRanksAt(corner) == 2) {
    place.children.push_back(cube_.RankAt(corner, 1 - cube_.SeatOf(rank)));
  }
  const int differing = corner ^ cube_.CornerOf(block);
  for (int dimension = 0; dimension < cube_.num_dimensions(); ++dimension) {
    const int across = RankFor(corner ^ (1 << dimension), block);
    if ((differing >> dimension & 1) != 0) {
      place.parent = across;
      return place;
    }
    place.children.push_back(across);
  }
  return place;
}

Slot AddSums(const HalvingTrees::Place& place, int rank, int block, Slot into,
             ScheduleBuilder::LaneBuilder& lane) {
  Slot sum = Input(block);
  int bank = 0;
  for (int child : place.children) {
    // Scratch of one arrival, read once by the next step.
    const Slot arrived = Scratch(block, ++bank);
    lane.Recv(child, /*tag=*/block, arrived);
    const Slot left = child < rank ? arrived : sum;
    const Slot right = child < rank ? sum : arrived;
    if (place.parent < 0 && child == place.children.back()) {
      lane.ReduceAndFinish(into, left, right);
    } else {
      lane.Reduce(into, left, right);
    }
    sum = into;
  }
  return sum;
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
