// DirectReduce: an all-reduce in two rounds, written outside the library.
//
// The data is cut into n chunks; rank r owns chunk r. First, each rank sends
// every chunk to its owner. The owner adds up the contributions in rank order,
// then sends the sum to all ranks. With three ranks a, b and c:
//
//                         chunk 0       chunk 1       chunk 2
//   round 1, to owners    b0, c0 -> a   a1, c1 -> b   a2, b2 -> c
//   in rank order         a0 + b0 + c0  a1 + b1 + c1  a2 + b2 + c2
//   round 2, from owners  a -> b, c     b -> a, c     c -> a, b
//
// Per rank: 2(n-1) messages sent, n-1 reductions, and 2(n-1)/n of the data
// sent, which is the minimum. A ring sends as much but takes 2(n-1) rounds. In
// a ring, however, a rank talks to two others, here to all at once.

#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace {

using tutti::Data;
using tutti::Input;
using tutti::Scratch;
using tutti::Slot;
using tutti::StepRef;

enum Tag { kContribution, kSum };

// Adds up all ranks' contributions to the chunk of `rank`. Returns the step
// that completes Data(rank).
StepRef SumOwnChunk(int rank, int num_ranks, tutti::ScheduleBuilder& builder) {
  auto adding = builder.AddLane();
  const auto contribution = [rank](int from) {
    return from == rank ? Input(rank) : Scratch(rank, /*bank=*/from);
  };
  const auto receive = [&](int from) {
    if (from == rank) return StepRef();
    return builder.AddLane().Recv(from, kContribution, contribution(from));
  };

  // A step can wait for only one step of another lane, but the first addition
  // needs two contributions: rank 0's arrives in the lane that adds.
  if (rank != 0) adding.Recv(0, kContribution, contribution(0));
  Slot sum = contribution(0);
  const int last = num_ranks - 1;
  for (int from = 1; from < last; ++from) {
    const Slot into = Scratch(rank, /*bank=*/0);
    adding.Reduce(into, sum, contribution(from), receive(from));
    sum = into;
  }
  return adding.ReduceAndFinish(Data(rank), sum, contribution(last),
                                receive(last));
}

tutti::Schedule Plan(const tutti::PlanRequest& request) {
  const int num_ranks = request.layout.size();
  tutti::ScheduleBuilder builder(/*num_chunks=*/num_ranks);
  if (num_ranks == 1) {
    builder.AddLane().CopyAndFinish(Data(0), Input(0));
    return builder.Build();
  }
  const StepRef summed = SumOwnChunk(request.rank, num_ranks, builder);
  for (int peer = 0; peer < num_ranks; ++peer) {
    if (peer == request.rank) continue;
    builder.AddLane().Send(peer, kSum, Data(request.rank), summed);
    // The peer adds up what it received, so the sum arrives after the
    // contribution was sent. This holds in place too, where both share memory.
    auto lane = builder.AddLane();
    lane.Send(peer, kContribution, Input(peer));
    lane.Recv(peer, kSum, Data(peer));
  }
  return builder.Build();
}

// Without cost_seconds, the algorithm runs only when named.
REGISTER_COLLECTIVE(
    DirectReduce,
    tutti::Scheduled(
        {.traits = {.summary = "each rank reduces one chunk for all, in two "
                               "rounds",
                    .collectives = {tutti::CollectiveType::kAllReduce},
                    .preserves_rank_order = true,
                    .determinism = tutti::Determinism::kByRankOrder},
         .plan = Plan}));

}  // namespace
