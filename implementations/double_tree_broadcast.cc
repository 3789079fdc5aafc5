#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "implementations/parts/cost.h"
#include "implementations/parts/double_tree.h"
#include "implementations/parts/double_tree_links.h"
#include "implementations/parts/pipelines.h"
#include "implementations/parts/relay.h"
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
Relay RelayAt(int tree, int position, int size) {
  const int num_others = size - 1;
  if (position == 0) {
    if (num_others == 0) return {};
    return {.children = {1 + RootOfTree(tree, num_others)}};
  }
  const TreePlace place = PlaceInTree(tree, position - 1, num_others);
  Relay relay = {.parent = place.parent < 0 ? 0 : 1 + place.parent};
  for (const int child : {place.left, place.right}) {
    if (child >= 0) relay.children.push_back(1 + child);
  }
  return relay;
}

constexpr RelayTrees kTrees = {.num_trees = 2, .relay_at = RelayAt};

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
               .plan =
                   [](const PlanRequest& request) {
                     return PlanRelays(request, kTrees);
                   },
               .subdivide = Subdivide,
               .outline =
                   [](const PlanRequest& request) {
                     return RelayOutline(request, kTrees);
                   }}));

}  // namespace
}  // namespace tutti
