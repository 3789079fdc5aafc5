#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "implementations/parts/binomial_tree.h"
#include "implementations/parts/cost.h"
#include "implementations/parts/double_tree.h"
#include "implementations/parts/double_tree_links.h"
#include "implementations/parts/pipelines.h"
#include "implementations/parts/relay.h"
#include "implementations/parts/relay_outline.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// The source sends one half of the buffer to the root of each of two trees over
// all other ranks. The trees carry the halves on. A rank with children in one
// tree has none in the other (double_tree.h). No rank sends or receives more
// than 2 halves, which is S.
//
//   source --> 5, half 0              source --> 4, half 1
//
//              5                                 4            The others at
//             / \                               / \           positions 0..7.
//            3   7 ...                         2   6 ...
//
// Halves are cut into k chunks that follow each other: ceil(log2(n - 1)) + k
// transfers in a row. (Sanders, Speck, Traeff 2009, as for the trees.)
Relay RelayOf(int tree, const Pipeline& pipeline, int rank) {
  const std::vector<int>& order = pipeline.order;
  const int num_others = static_cast<int>(order.size()) - 1;
  const auto rank_at = [&](int position) { return order[1 + position]; };
  Relay relay;
  for (const int subdiv : pipeline.subdivs) {
    relay.chunks.push_back(2 * subdiv + tree);
  }
  if (rank == order.front()) {
    if (num_others > 0) {
      relay.children = {rank_at(RootOfTree(tree, num_others))};
    }
    return relay;
  }
  const int position = PositionIn(order, rank) - 1;
  const TreePlace place = PlaceInTree(tree, position, num_others);
  relay.parent = place.parent < 0 ? order.front() : rank_at(place.parent);
  for (const int child : {place.left, place.right}) {
    if (child >= 0) relay.children.push_back(rank_at(child));
  }
  return relay;
}

Schedule Plan(const PlanRequest& request) {
  const auto num_subdivs = static_cast<int>(request.subdiv_offsets.size());
  ScheduleBuilder builder(/*num_chunks=*/2 * num_subdivs);
  for (const Pipeline& pipeline : PipelinesFromSource(request)) {
    for (const int tree : {0, 1}) {
      AddRelay(RelayOf(tree, pipeline, request.rank), builder);
    }
  }
  return builder.Build();
}

RelayTree RelayTreeOf(int tree, const Pipeline& pipeline) {
  const std::vector<int>& order = pipeline.order;
  const int num_others = static_cast<int>(order.size()) - 1;
  RelayTree relays = {.parents = std::vector<int>(order.size(), -1),
                      .num_chunks = static_cast<int>(pipeline.subdivs.size())};
  for (int position = 0; position < num_others; ++position) {
    const int parent = PlaceInTree(tree, position, num_others).parent;
    relays.parents[order[1 + position]] =
        parent < 0 ? order.front() : order[1 + parent];
  }
  return relays;
}

absl::StatusOr<std::unique_ptr<const Outline>> MakeOutline(
    const PlanRequest& request) {
  std::vector<RelayTree> trees;
  for (const Pipeline& pipeline : PipelinesFromSource(request)) {
    for (const int tree : {0, 1}) trees.push_back(RelayTreeOf(tree, pipeline));
  }
  return RelayOutline(trees);
}

// Returns the rounds of the first piece.
int NumRounds(int size) { return size < 2 ? 0 : CeilLog2(size - 1) + 1; }

std::vector<int> Subdivide(const SubdivisionRequest& request) {
  return OnePipeline(NumPieces(
      request, {.num_rounds = NumRounds(request.layout.size()), .load = 1}));
}

// Blocks are chunks. A rank sends two of them in a round.
double CostSeconds(const CostQuery& query) {
  const int size = query.layout.size();
  if (size == 1) return 0;
  const auto num_pieces = static_cast<int>(
      Subdivide({.layout = query.layout, .bytes = query.bytes}).size());
  const int num_rounds = NumRounds(size) - 1 + num_pieces;
  const double pieces = num_pieces;
  // The source counts as if it were an inner rank of the trees.
  const bool leaves = SpansProcesses(query);
  Traffic traffic;
  if (leaves) {
    const TreeLinks links = LinksOutOfTasks(query.layout);
    traffic.Add({.leaving = links.down,
                 .in_all = links.both,
                 .of_all_processes = links.in_all * pieces / num_rounds},
                num_rounds, num_rounds);
  }
  traffic.Add({}, leaves ? 0 : num_rounds, 2 * num_rounds);
  return traffic.SecondsInPieces(
      query.model, static_cast<double>(query.bytes) / (2 * num_pieces),
      num_pieces);
}

REGISTER_COLLECTIVE(
    DoubleTreeBroadcast,
    Scheduled({.traits = {.summary = "halves go down two trees, piece by "
                                     "piece: log2 n steps and one per piece",
                          .collectives = {CollectiveType::kBroadcast},
                          .supports_subdivisions = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan,
               .subdivide = Subdivide,
               .outline = MakeOutline}));

}  // namespace
}  // namespace tutti
