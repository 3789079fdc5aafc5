#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "implementations/parts/cost.h"
#include "implementations/parts/double_tree.h"
#include "implementations/parts/double_tree_links.h"
#include "implementations/parts/double_tree_outline.h"
#include "implementations/parts/pipelines.h"
#include "implementations/parts/subdivision.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Sums go up two trees and results come down again, one half of the buffer in
// each tree. A rank that adds in one tree only sends its input in the other
// (double_tree.h). Each rank sends 4 halves, 2 S, and receives as many.
//
//   half 0:   1 <- 0, 2        half 1:   2 <- 0 <- 1        and the same trees
//                                        2 <- 3             downwards; 4 ranks
//             3 <- 1                                        in each.
//
// Halves are cut into k chunks that follow each other: while one chunk comes
// down, the next goes up. The first chunk takes at most 3 ceil(log2 n)
// transfers in a row, because a rank reads its children one after the other.
// Each further chunk takes one more. For large buffers and many ranks, no other
// algorithm here that sends a small multiple of the buffer takes fewer
// transfers. Any number of ranks. With fewer elements than chunks, some chunks
// are empty.
//
// Each sum is left (+) (own (+) right), in the order of the pipeline.

// Returns a rank's neighbours in one tree; negative if there is none.
TreePlace RanksAt(const TreePlace& place, const std::vector<int>& order) {
  const auto rank_at = [&](int position) {
    return position < 0 ? -1 : order[position];
  };
  return {.parent = rank_at(place.parent),
          .left = rank_at(place.left),
          .right = rank_at(place.right)};
}

// Steps of one rank in one tree, for the chunks of that tree. Each direction of
// each link has a lane.
class TreeLanes {
 public:
  using Lane = ScheduleBuilder::LaneBuilder;

  TreeLanes(const TreePlace& peers, ScheduleBuilder& builder)
      : peers_(peers), builder_(builder) {}

  void Add(const std::vector<int>& chunks) {
    if (chunks.empty()) return;
    std::vector<Sum> sums = AddUp(chunks);
    if (peers_.parent >= 0) Exchange(chunks, &sums);
    for (const int child : {peers_.right, peers_.left}) {
      if (child < 0) continue;
      Lane lane = builder_.AddLane();
      for (size_t i = 0; i < chunks.size(); ++i) {
        lane.Send(child, /*tag=*/chunks[i], Data(chunks[i]), sums[i].made);
      }
    }
  }

 private:
  struct Sum {
    Slot slot;
    StepRef made;  // Not set: there from the start.
  };

  std::vector<Sum> AddUp(const std::vector<int>& chunks) {
    std::vector<Sum> sums;
    for (const int chunk : chunks) sums.push_back({.slot = Input(chunk)});
    const bool is_root = peers_.parent < 0;
    if (peers_.right >= 0) {
      Lane lane = builder_.AddLane();
      const bool finishes = is_root && peers_.left < 0;
      for (size_t i = 0; i < chunks.size(); ++i) {
        AddOne(peers_.right, chunks[i], finishes, lane, &sums[i]);
      }
    }
    if (peers_.left >= 0) {
      Lane lane = builder_.AddLane();
      for (size_t i = 0; i < chunks.size(); ++i) {
        AddOne(peers_.left, chunks[i], is_root, lane, &sums[i]);
      }
    }
    return sums;
  }

  void AddOne(int child, int chunk, bool finishes, Lane& lane, Sum* sum) {
    const bool is_left = child == peers_.left;
    const Slot arrived = Scratch(chunk, is_left ? 0 : 1);
    const Slot left = is_left ? arrived : sum->slot;
    const Slot right = is_left ? sum->slot : arrived;
    const Slot into = Data(chunk);
    lane.Recv(child, /*tag=*/chunk, arrived, sum->made);
    sum->made = finishes ? lane.ReduceAndFinish(into, left, right)
                         : lane.Reduce(into, left, right);
    sum->slot = into;
  }

  // Sends sums to the parent and receives results.
  void Exchange(const std::vector<int>& chunks, std::vector<Sum>* sums) {
    Lane up = builder_.AddLane();
    Lane down = builder_.AddLane();
    for (size_t i = 0; i < chunks.size(); ++i) {
      const int chunk = chunks[i];
      Sum& sum = (*sums)[i];
      const StepRef sent =
          up.Send(peers_.parent, /*tag=*/chunk, sum.slot, sum.made);
      sum.made = down.Recv(peers_.parent, /*tag=*/chunk, Data(chunk), sent);
    }
  }

  const TreePlace peers_;
  ScheduleBuilder& builder_;
};

// Adds both trees over `order`. `chunks[t]` go through tree t.
void AddTrees(const std::vector<int>& order, int rank,
              const std::vector<int> (&chunks)[2], ScheduleBuilder& builder) {
  const int size = static_cast<int>(order.size());
  const int position = PositionIn(order, rank);
  for (const int tree : {0, 1}) {
    if (size == 1) {
      for (const int chunk : chunks[tree]) {
        builder.AddLane().CopyAndFinish(Data(chunk), Input(chunk));
      }
      continue;
    }
    const TreePlace place = PlaceInTree(tree, position, size);
    TreeLanes(RanksAt(place, order), builder).Add(chunks[tree]);
  }
}

Schedule Plan(const PlanRequest& request) {
  const int num_subdivs = static_cast<int>(request.subdiv_offsets.size());
  ScheduleBuilder builder(/*num_chunks=*/2 * num_subdivs);
  for (const Pipeline& pipeline : PipelinesOf(request)) {
    std::vector<int> chunks[2];
    for (const int subdiv : pipeline.subdivs) {
      for (const int tree : {0, 1}) chunks[tree].push_back(2 * subdiv + tree);
    }
    AddTrees(pipeline.order, request.rank, chunks, builder);
  }
  return builder.Build();
}

// Returns the rounds of the first piece.
int NumRounds(int size) { return 3 * CeilLog2(size); }

// Blocks are chunks.
Traffic TreesTraffic(const CostQuery& query, int num_pieces) {
  const int size = query.layout.size();
  if (size == 1) return {};
  const int num_rounds = NumRounds(size) - 1 + num_pieces;
  // A rank sends up in both trees, and down to two children in one tree.
  const int sent = size == 2 ? 2 : 4;
  Traffic traffic;
  // Each link carries a chunk up and a chunk down.
  const bool leaves = SpansProcesses(query);
  if (leaves) {
    const TreeLinks links = LinksOutOfTasks(query.layout);
    Crossings crossings = BothWays(query, links.both);
    // Each link carries the pieces of its tree, up and down.
    crossings.of_all_processes = 2.0 * links.in_all * num_pieces / num_rounds;
    traffic.Add(crossings, num_rounds, num_rounds);
  }
  traffic.Add({}, leaves ? 0 : num_rounds, sent * num_rounds);
  return traffic;
}

std::vector<int> Subdivide(const SubdivisionRequest& request) {
  return OnePipeline(NumPieces(
      request, {.num_rounds = NumRounds(request.layout.size()), .load = 2}));
}

double SubdividedSeconds(const CostQuery& query, int num_pieces) {
  const double chunk_bytes =
      static_cast<double>(query.bytes) / (2 * num_pieces);
  return TreesTraffic(query, num_pieces)
      .SecondsInPieces(query.model, chunk_bytes, num_pieces);
}

double CostSeconds(const CostQuery& query) {
  const auto pieces = Subdivide({.layout = query.layout, .bytes = query.bytes});
  return SubdividedSeconds(query, static_cast<int>(pieces.size()));
}

REGISTER_COLLECTIVE(
    DoubleTreeReduce,
    Scheduled({.traits = {.summary = "halves go up and down two trees, piece "
                                     "by piece: 3 log2 n steps and one per "
                                     "piece",
                          .collectives = {CollectiveType::kAllReduce},
                          .supports_subdivisions = true,
                          .determinism = Determinism::kFixedLayout,
                          .cost_seconds = CostSeconds},
               .plan = Plan,
               .subdivide = Subdivide,
               .subdivided_seconds = SubdividedSeconds,
               .outline = DoubleTreeOutline}));

}  // namespace
}  // namespace tutti
