#include "implementations/two_level/hierarchical_tree_broadcast.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// A tree over the tasks carries the buffer from the source to one rank of each
// task, the head; a tree inside each task carries it on from the head.
//
//   task 0: *source* --> rank 1    The source heads its own task, the lowest
//             |                    rank heads any other. Links between tasks
//   task 1: rank 2 ----> rank 3    carry the buffer once per task.
//
// With T tasks of at most D ranks: at most ceil(log2 T) + ceil(log2 D)
// transfers in a row. Each rank receives the buffer once, and n - 1 copies are
// sent in all. Nodes serve large subtrees first. (Binomial trees as in R.
// Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
// operations in MPICH", IJHPCA 19, 2005.)
//
// Neighbours of a rank in one such tree.
struct Place {
  int parent = -1;            // Negative: none.
  std::vector<int> children;  // Largest subtrees first.
};

// Returns the place of `index` in a tree. Tree positions are the indices from
// `head` on, wrapping around. `rank_at` maps an index to its rank.
template <typename RankAt>
Place PlaceIn(int size, int head, int index, RankAt rank_at) {
  const int position = (index - head + size) % size;
  const auto rank_of = [&](int p) { return rank_at((head + p) % size); };
  Place place;
  if (position > 0) place.parent = rank_of(BinomialParent(position));
  for (int child : BinomialChildren(position, size)) {
    place.children.push_back(rank_of(child));
  }
  std::reverse(place.children.begin(), place.children.end());
  return place;
}

// Returns the index of `rank`. REQUIRES: `ranks` increase and contain `rank`.
int IndexOf(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) -
                          ranks.begin());
}

Place PlaceInTask(const PlanRequest& request) {
  const int task = request.layout.task_of(request.rank);
  const std::vector<int>& ranks = request.layout.tasks()[task];
  const bool has_source = task == request.layout.task_of(request.root);
  return PlaceIn(static_cast<int>(ranks.size()),
                 has_source ? IndexOf(ranks, request.root) : 0,
                 IndexOf(ranks, request.rank),
                 [&](int index) { return ranks[index]; });
}

// Returns the place among heads. REQUIRES: `request.rank` is a head.
Place PlaceAmongTasks(const PlanRequest& request) {
  const GroupLayout& layout = request.layout;
  const int source_task = layout.task_of(request.root);
  return PlaceIn(layout.num_tasks(), source_task, layout.task_of(request.rank),
                 [&](int task) {
                   return task == source_task ? request.root
                                              : layout.tasks()[task].front();
                 });
}

void AddSends(const Place& place, Slot from, StepRef after,
              ScheduleBuilder& builder) {
  if (place.children.empty()) return;
  auto lane = builder.AddLane();
  for (int child : place.children) {
    lane.Send(child, /*tag=*/0, from, std::exchange(after, {}));
  }
}

}  // namespace

Schedule PlanHierarchicalTreeBroadcast(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  const Place inside = PlaceInTask(request);
  const Place among = inside.parent < 0 ? PlaceAmongTasks(request) : Place{};
  if (request.rank == request.root) {
    AddSends(among, Input(0), {}, builder);
    AddSends(inside, Input(0), {}, builder);
    builder.AddLane().Copy(Data(0), Input(0));
    return builder.Build();
  }
  const int parent = inside.parent < 0 ? among.parent : inside.parent;
  const StepRef arrived = builder.AddLane().Recv(parent, /*tag=*/0, Data(0));
  AddSends(among, Data(0), arrived, builder);
  AddSends(inside, Data(0), arrived, builder);
  return builder.Build();
}

Traffic HierarchicalTreeBroadcastTraffic(const CostQuery& query) {
  const int among_tasks = CeilLog2(query.layout.num_tasks());
  const int inside = CeilLog2(LargestTask(query.layout));
  Traffic traffic;
  const double sent = query.layout.num_tasks() - 1;
  traffic.Add(OneWay(query, among_tasks > 0 ? sent / among_tasks : 0),
              among_tasks, among_tasks);
  traffic.Add({}, inside, inside);
  return traffic;
}

namespace {

double CostSeconds(const CostQuery& query) {
  return HierarchicalTreeBroadcastTraffic(query).Seconds(
      query.model, static_cast<double>(query.bytes));
}

REGISTER_COLLECTIVE(
    HierarchicalTreeBroadcast,
    Scheduled({.traits = {.summary = "one tree between tasks, one inside each "
                                     "task: about log2 n steps",
                          .collectives = {CollectiveType::kBroadcast},
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = PlanHierarchicalTreeBroadcast}));

// The name in TensorFlow's collective runtime.
REGISTER_COLLECTIVE_ALIAS(HierarchicalTreeBroadcaster,
                          HierarchicalTreeBroadcast);

}  // namespace
}  // namespace tutti
