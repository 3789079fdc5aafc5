#include "implementations/tree_reduce.h"

#include <cstdint>
#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Sums go up a binomial tree. Every subtree is a run of consecutive ranks: the
// order of summation is the order of ranks. The ranks below the root, if any,
// form a separate tree, which the root adds on the left.
//
//   reduce to 3:   0 <- 1          all_reduce:  0 <- 1
//                  0 <- 2                       0 <- 2 <- 3
//                  3 <- 0                       and the same tree downwards.
//                  3 <- 4
//
// At most ceil(log2 n) + 1 transfers in a row to reduce, 2 ceil(log2 n) to
// all-reduce. Every rank but the root sends the whole buffer up once. n - 1
// copies go down in total. (Thakur et al. 2005, as for broadcast.)
enum Tag { kUp = 0, kDown = 1 };

// A rank's neighbours in the tree.
struct Place {
  int parent = -1;            // Negative: none.
  std::vector<int> children;  // Sums of higher ranks, increasing.
  int left = -1;              // Sum of all lower ranks; none if < 0.
};

Place PlaceOf(int rank, int root, int size) {
  const int first = rank < root ? 0 : root;
  const int tree_size = rank < root ? root : size - root;
  const int position = rank - first;
  Place place;
  for (int child : BinomialChildren(position, tree_size)) {
    place.children.push_back(first + child);
  }
  if (position > 0) {
    place.parent = first + BinomialParent(position);
  } else if (rank != root) {
    place.parent = root;
  } else if (root > 0) {
    place.left = 0;
  }
  return place;
}

// Appends the reduction of this rank's subtree and returns the slot of the sum.
// Every arrival has a separate scratch bank, read once, by the next step.
Slot AddSums(const Place& place, Slot sum_into,
             ScheduleBuilder::LaneBuilder& lane) {
  const bool is_root = place.parent < 0;
  int bank = 0;
  Slot sum = Input(0);
  const auto add = [&](int from, bool is_left, bool is_last) {
    const Slot arrived = Scratch(0, ++bank);
    const Slot left = is_left ? arrived : sum;
    const Slot right = is_left ? sum : arrived;
    lane.Recv(from, kUp, arrived);
    if (is_last && is_root) {
      lane.ReduceAndFinish(sum_into, left, right);
    } else {
      lane.Reduce(sum_into, left, right);
    }
    sum = sum_into;
  };
  const bool has_left = place.left >= 0;
  for (size_t i = 0; i < place.children.size(); ++i) {
    const bool is_last = !has_left && i + 1 == place.children.size();
    add(place.children[i], /*is_left=*/false, is_last);
  }
  if (has_left) add(place.left, /*is_left=*/true, /*is_last=*/true);
  return sum;
}

}  // namespace

Schedule PlanTreeReduce(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  if (request.layout.size() == 1) {
    lane.CopyAndFinish(Data(0), Input(0));
    return builder.Build();
  }
  const bool to_all = request.type == CollectiveType::kAllReduce;
  const int root = to_all ? 0 : request.root;
  const Place place = PlaceOf(request.rank, root, request.layout.size());
  const bool has_output = HasOutput(request.type, request.rank, root);
  const Slot sum = AddSums(place, has_output ? Data(0) : Scratch(0), lane);
  const bool is_root = request.rank == root;
  if (!is_root) lane.Send(place.parent, kUp, sum);
  if (!to_all) return builder.Build();
  if (!is_root) lane.Recv(place.parent, kDown, Data(0));
  for (auto child = place.children.rbegin(); child != place.children.rend();
       ++child) {
    lane.Send(*child, kDown, Data(0));
  }
  return builder.Build();
}

Traffic TreeReduceTraffic(const CostQuery& query) {
  const int ways = query.type == CollectiveType::kAllReduce ? 2 : 1;
  Traffic traffic;
  for (int64_t step = 1; step < query.layout.size(); step *= 2) {
    const Crossings crossings = CrossingsOf(query, [step](int rank) {
      return (rank & -rank) == step ? BinomialParent(rank) : rank;
    });
    traffic.Add(crossings, ways, ways);
  }
  return traffic;
}

namespace {

double CostSeconds(const CostQuery& query) {
  return TreeReduceTraffic(query).Seconds(query.model,
                                          static_cast<double>(query.bytes));
}

REGISTER_COLLECTIVE(
    TreeReduce,
    Scheduled({.traits = {.summary = "sums go up a tree, in rank order: fewest "
                                     "messages",
                          .collectives = {CollectiveType::kAllReduce,
                                          CollectiveType::kReduce},
                          .preserves_rank_order = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = PlanTreeReduce}));

}  // namespace
}  // namespace tutti
