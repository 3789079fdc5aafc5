#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/pipelines.h"
#include "implementations/parts/relay.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// The buffer goes from the source through a chain of all ranks, in k chunks
// that follow each other. With chunks a, b and c:
//
//   source --> rank 1 --> rank 2 --> rank 3
//   1.     a
//   2.     b          a
//   3.     c          b          a
//   4.                c          b              and so on.
//
// n - 2 + k transfers in a row of one k-th of the buffer. Every rank but the
// ends receives and sends the buffer once, the least possible, and a chain
// enters each task once: for large buffers and few ranks.
Relay RelayAt(int /*tree*/, int position, int size) {
  Relay relay = {.parent = position - 1};
  if (position + 1 < size) relay.children = {position + 1};
  return relay;
}

constexpr RelayTrees kChain = {.num_trees = 1, .relay_at = RelayAt};

std::vector<int> Subdivide(const SubdivisionRequest& request) {
  return OnePipeline(
      NumPieces(request, {.num_rounds = request.layout.size() - 1, .load = 1}));
}

double CostSeconds(const CostQuery& query) {
  if (query.layout.size() == 1) return 0;
  const int num_pieces = static_cast<int>(
      Subdivide({.layout = query.layout, .bytes = query.bytes}).size());
  const int num_rounds = query.layout.size() - 2 + num_pieces;
  Traffic traffic;
  // Price of each step is as if the step left a process. After the first piece,
  // a process receives one piece while it sends another. The first task only
  // sends and the last task only receives.
  const int steps = query.layout.size() - 1;
  const int following = num_rounds - steps;
  const double links = query.layout.num_tasks() - 1;
  const bool passes_on = query.layout.num_tasks() > 2;
  Crossings after = passes_on ? BothWays(query) : OneWay(query);
  after.of_all_processes = SpansProcesses(query) ? links : 0;
  traffic.Add(OneWay(query, links / steps), steps, steps);
  traffic.Add(after, following, following);
  return traffic.Seconds(query.model,
                         static_cast<double>(query.bytes) / num_pieces);
}

REGISTER_COLLECTIVE(
    ChainBroadcast,
    Scheduled({.traits = {.summary = "from rank to rank, piece by piece: "
                                     "fewest bytes, n - 2 steps and one per "
                                     "piece",
                          .collectives = {CollectiveType::kBroadcast},
                          .supports_subdivisions = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan =
                   [](const PlanRequest& request) {
                     return PlanRelays(request, kChain);
                   },
               .subdivide = Subdivide,
               .outline =
                   [](const PlanRequest& request) {
                     return RelayOutline(request, kChain);
                   }}));

}  // namespace
}  // namespace tutti
