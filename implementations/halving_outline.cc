#include "implementations/halving_outline.h"

#include <algorithm>
#include <cstdint>

#include "implementations/rank_cube.h"

namespace tutti {
namespace {

// All blocks that have the same way through a dimension, and the same seats on
// it, are in the same round, so that they only need counting.
//
// Up, ranks of a shared corner first exchange their blocks, and so those of
// every corner whose sums come from a shared one are one round later than the
// dimension alone would say. Down, all ranks use a dimension at once.
class HalvingDoubling : public Outline {
 public:
  explicit HalvingDoubling(int num_ranks)
      : Outline(SizeOf(num_ranks)),
        cube_(num_ranks),
        delay_(cube_.num_shared() > 0 ? 1 : 0) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    for (int rank = first; rank < end; ++rank) AppendOf(rank, round, into);
  }

 private:
  static Size SizeOf(int num_ranks) {
    const RankCube cube(num_ranks);
    const int delays = cube.num_shared() > 0 ? 2 : 0;
    return {.num_ranks = num_ranks,
            .num_chunks = num_ranks,
            .num_rounds = 2 * cube.num_dimensions() + delays + 1,
            .period = num_ranks};
  }

  void AppendOf(int rank, int round, OutlineRound* into) const {
    const int dimensions = cube_.num_dimensions();
    const int corner = cube_.CornerOf(rank);
    const bool is_shared = cube_.NumRanksAt(corner) == 2;
    if (round == 0) {
      if (dimensions == 0) into->work.push_back({rank, 0, 1});
      return;
    }
    if (round == 1 && is_shared) AddPartner(rank, /*up=*/true, into);
    for (int dimension : {round - 1, round - 2}) {
      if (dimension < 0 || dimension >= dimensions) continue;
      if (RoundUp(corner, dimension) != round) continue;
      AddDimension(rank, dimension, /*up=*/true, into);
    }
    const int down = 2 * dimensions + delay_ - round;
    if (down >= 0 && down < dimensions) {
      AddDimension(rank, down, /*up=*/false, into);
    }
    if (down == -1 && is_shared) AddPartner(rank, /*up=*/false, into);
  }

  // In which sums cross a dimension at that corner.
  int RoundUp(int corner, int dimension) const {
    const int first_below = corner >> (dimension + 1) << (dimension + 1);
    return dimension + 1 + (first_below < cube_.num_shared() ? 1 : 0);
  }

  // How many blocks of that seat have owners on corners that are the same as
  // `corner` in the first dimensions.
  int64_t NumBlocks(int corner, int num_dimensions, int seat) const {
    const int shared = cube_.num_shared();
    const int half = shared + (cube_.num_corners() - shared + 1) / 2;
    const auto below = [&](int end) {
      const int step = 1 << num_dimensions;
      const int offset = corner % step;
      return end <= offset ? 0 : (end - offset - 1) / step + 1;
    };
    const int alone = seat == 0 ? below(half) - below(shared)
                                : below(cube_.num_corners()) - below(half);
    return below(shared) + alone;
  }

  // The partner stands for the blocks of its own seat.
  void AddPartner(int rank, bool up, OutlineRound* into) const {
    const int own = cube_.SeatOf(rank);
    into->transfers.push_back(
        {rank, cube_.PartnerOf(rank), NumBlocks(0, 0, up ? 1 - own : own)});
    if (up) into->work.push_back({rank, NumBlocks(0, 0, own), 0});
  }

  void AddDimension(int rank, int dimension, bool up,
                    OutlineRound* into) const {
    const int corner = cube_.CornerOf(rank);
    const int across = corner ^ (1 << dimension);
    const bool is_shared = cube_.NumRanksAt(corner) == 2;
    int64_t received = 0;
    for (int seat : {0, 1}) {
      if (is_shared && cube_.SeatOf(rank) != seat) continue;
      const int64_t sent = NumBlocks(up ? across : corner, dimension + 1, seat);
      received += NumBlocks(up ? corner : across, dimension + 1, seat);
      AddTransfer({rank, cube_.RankAt(across, seat), sent}, into);
    }
    if (up && received > 0) into->work.push_back({rank, received, 0});
  }

  static void AddTransfer(const OutlineRound::Transfer& transfer,
                          OutlineRound* into) {
    if (transfer.chunks == 0) return;
    auto& all = into->transfers;
    if (!all.empty() && all.back().from == transfer.from &&
        all.back().to == transfer.to) {
      all.back().chunks += transfer.chunks;
    } else {
      all.push_back(transfer);
    }
  }

  const RankCube cube_;
  const int delay_;
};

}  // namespace

std::unique_ptr<const Outline> HalvingDoublingOutline(
    const PlanRequest& request) {
  return std::make_unique<HalvingDoubling>(request.layout.size());
}

}  // namespace tutti
