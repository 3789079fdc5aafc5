#include <cstddef>
#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/lanes_in_turn.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// In round t every rank sends to the rank t places after it and receives from
// the rank t places before it. No two ranks send to the same rank.
//
//   t = 1:  0 -> 1 -> 2 -> 3 -> 0      n - 1 rounds; every rank sends all its
//   t = 2:  0 <-> 2, 1 <-> 3           blocks but its own, once. A few rounds
//   t = 3:  0 <- 1 <- 2 <- 3 <- 0      run at once, never more.
//
// In place, the block that arrives from a rank overwrites the block that goes
// to it. Round t receives into the block that round n - t sends. In the second
// half of the rounds, that block has been sent already. In the first half, it
// is copied to scratch memory. (Pairwise exchange: Thakur et al. 2005, as for
// broadcast.)
constexpr size_t kRoundsAtOnce = 4;

class Rotation {
 public:
  Rotation(int rank, int size, ScheduleBuilder& builder)
      : rank_(rank),
        size_(size),
        sends_(kRoundsAtOnce, builder),
        receives_(kRoundsAtOnce, builder),
        sent_(size),
        saved_(size) {}

  void AddRound(int round) {
    const int from = From(round);
    const int to = To(round);
    sends_.Next().Send(to, round, Input(to));
    receives_.Next().Recv(from, round, Data(from));
  }

  // Adds a round. REQUIRES: rounds are added in order, from 1 on.
  void AddRoundInPlace(int round) {
    auto& receives = receives_.Next();
    const int from = From(round);
    const int to = To(round);
    if (2 * round <= size_) {
      saved_[from] = receives.Copy(Scratch(from), Input(from));
    }
    receives.Recv(from, round, Data(from), sent_[from]);
    const bool is_saved = saved_[to].is_set();
    sent_[to] = sends_.Next().Send(
        to, round, is_saved ? Scratch(to) : Input(to), saved_[to]);
  }

 private:
  int To(int round) const { return (rank_ + round) % size_; }
  int From(int round) const { return (rank_ - round + size_) % size_; }

  const int rank_;
  const int size_;
  LanesInTurn sends_;
  LanesInTurn receives_;
  std::vector<StepRef> sent_;   // By block.
  std::vector<StepRef> saved_;  // By block; not set if not saved.
};

Schedule Plan(const PlanRequest& request) {
  const int size = request.layout.size();
  ScheduleBuilder builder(size);
  Rotation rotation(request.rank, size, builder);
  for (int round = 1; round < size; ++round) {
    if (request.in_place) {
      rotation.AddRoundInPlace(round);
    } else {
      rotation.AddRound(round);
    }
  }
  builder.AddLane().Copy(Data(request.rank), Input(request.rank));
  return builder.Build();
}

REGISTER_COLLECTIVE(
    PairwiseAllToAll,
    Scheduled({.traits = {.summary = "everyone sends to everyone, in rotation: "
                                     "fewest bytes, n - 1 steps",
                          .collectives = {CollectiveType::kAllToAll},
                          .supports_uneven = true,
                          .supports_recv_rows = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = ToAllSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
