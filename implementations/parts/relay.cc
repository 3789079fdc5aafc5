#include "implementations/parts/relay.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "implementations/parts/pipelines.h"

namespace tutti {
namespace {

void AddRelay(int tree, const RelayTrees& trees, const Pipeline& pipeline,
              int position, ScheduleBuilder& builder) {
  const std::vector<int>& order = pipeline.order;
  const Relay relay =
      trees.relay_at(tree, position, static_cast<int>(order.size()));
  const bool is_source = relay.parent < 0;
  auto own = builder.AddLane();
  std::vector<Slot> slots;
  std::vector<StepRef> arrived;
  for (const int subdiv : pipeline.subdivs) {
    const int chunk = trees.num_trees * subdiv + tree;
    slots.push_back(is_source ? Input(chunk) : Data(chunk));
    if (is_source) {
      own.Copy(Data(chunk), Input(chunk));
      arrived.emplace_back();
    } else {
      arrived.push_back(
          own.Recv(order[relay.parent], /*tag=*/chunk, Data(chunk)));
    }
  }
  for (const int child : relay.children) {
    auto lane = builder.AddLane();
    for (size_t i = 0; i < slots.size(); ++i) {
      lane.Send(order[child], /*tag=*/slots[i].chunk, slots[i], arrived[i]);
    }
  }
}

// --- Outline -----------------------------------------------------------------

using Transfer = OutlineRound::Transfer;

// Link from a parent to a child. The child has the first chunk in `round`.
struct Link {
  int round = 0;
  int from = 0;
  int to = 0;
};

// Links of one tree.
struct Links {
  int num_chunks = 0;
  std::vector<int> depths;  // By rank: links from the source.
  std::vector<Link> all;    // In order of rounds.

  // Returns the links that carry some chunk in a round.
  std::pair<const Link*, const Link*> In(int round) const {
    const auto begins_before = [](const Link& link, int bound) {
      return link.round < bound;
    };
    const auto first = [&](int bound) {
      const auto found =
          std::lower_bound(all.begin(), all.end(), bound, begins_before);
      return all.data() + (found - all.begin());
    };
    return {first(round - num_chunks + 1), first(round + 1)};
  }

  int last_round() const {
    return all.empty() ? 0 : all.back().round + num_chunks - 1;
  }
};

std::vector<int> DepthsOf(const std::vector<int>& parents) {
  std::vector<int> depths(parents.size(), -1);
  std::vector<int> path;
  for (size_t rank = 0; rank < parents.size(); ++rank) {
    int above = static_cast<int>(rank);
    while (depths[above] < 0 && parents[above] >= 0) {
      path.push_back(above);
      above = parents[above];
    }
    if (parents[above] < 0) depths[above] = 0;
    for (int depth = depths[above]; !path.empty(); path.pop_back()) {
      depths[path.back()] = ++depth;
    }
  }
  return depths;
}

Links LinksOf(int tree, const RelayTrees& trees, const Pipeline& pipeline) {
  const std::vector<int>& order = pipeline.order;
  const auto size = static_cast<int>(order.size());
  std::vector<int> parents(order.size(), -1);  // By rank.
  for (int position = 0; position < size; ++position) {
    const int parent = trees.relay_at(tree, position, size).parent;
    if (parent >= 0) parents[order[position]] = order[parent];
  }
  Links links = {.num_chunks = static_cast<int>(pipeline.subdivs.size()),
                 .depths = DepthsOf(parents)};
  for (int rank = 0; rank < size; ++rank) {
    if (parents[rank] < 0) continue;
    links.all.push_back(
        {.round = links.depths[rank], .from = parents[rank], .to = rank});
  }
  std::sort(links.all.begin(), links.all.end(),
            [](const Link& a, const Link& b) {
              return std::tie(a.round, a.from, a.to) <
                     std::tie(b.round, b.from, b.to);
            });
  return links;
}

Outline::Size SizeOf(int num_ranks, const std::vector<Links>& trees) {
  Outline::Size size = {
      .num_ranks = num_ranks, .num_chunks = 0, .period = num_ranks};
  int last_round = 0;
  for (const Links& tree : trees) {
    size.num_chunks += tree.num_chunks;
    last_round = std::max(last_round, tree.last_round());
  }
  size.num_rounds = last_round + 1;
  int64_t most = 1;  // The source copies.
  for (int round = 1; round <= last_round; ++round) {
    int64_t links = 0;
    for (const Links& tree : trees) {
      const auto [begin, end] = tree.In(round);
      links += end - begin;
    }
    most = std::max(most, links);
  }
  size.most_transfers = most;
  return size;
}

class Relays : public Outline {
 public:
  Relays(const Size& size, int source, std::vector<Links> trees)
      : Outline(size), source_(source), trees_(std::move(trees)) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    if (round == 0) {
      if (source_ < first || source_ >= end) return;
      into->work.push_back(
          {.rank = source_, .copied_chunks = size().num_chunks});
      return;
    }
    std::vector<Transfer> all;
    for (const Links& tree : trees_) {
      const auto [begin, after] = tree.In(round);
      for (const Link* link = begin; link != after; ++link) {
        if (link->from < first || link->from >= end) continue;
        all.push_back({link->from, link->to, /*chunks=*/1});
      }
    }
    std::sort(all.begin(), all.end());
    AppendJoined(all, &into->transfers);
  }

  int64_t NumResults(int round, int rank) const override {
    if (rank == source_) return round == 0 ? size().num_chunks : 0;
    int64_t num_results = 0;
    for (const Links& tree : trees_) {
      const int since_first = round - tree.depths[rank];
      if (since_first >= 0 && since_first < tree.num_chunks) ++num_results;
    }
    return num_results;
  }

 private:
  // Joins transfers of the same link of two trees.
  static void AppendJoined(const std::vector<Transfer>& all,
                           std::vector<Transfer>* into) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (i > 0 && all[i - 1].from == all[i].from &&
          all[i - 1].to == all[i].to) {
        into->back().chunks += all[i].chunks;
        into->back().messages += all[i].messages;
      } else {
        into->push_back(all[i]);
      }
    }
  }

  const int source_;
  const std::vector<Links> trees_;
};

}  // namespace

Schedule PlanRelays(const PlanRequest& request, const RelayTrees& trees) {
  const auto num_subdivs = static_cast<int>(request.subdiv_offsets.size());
  ScheduleBuilder builder(trees.num_trees * num_subdivs);
  for (const Pipeline& pipeline : PipelinesFromSource(request)) {
    const int position = PositionIn(pipeline.order, request.rank);
    for (int tree = 0; tree < trees.num_trees; ++tree) {
      AddRelay(tree, trees, pipeline, position, builder);
    }
  }
  return builder.Build();
}

absl::StatusOr<std::unique_ptr<const Outline>> RelayOutline(
    const PlanRequest& request, const RelayTrees& trees) {
  std::vector<Links> links;
  for (const Pipeline& pipeline : PipelinesFromSource(request)) {
    for (int tree = 0; tree < trees.num_trees; ++tree) {
      links.push_back(LinksOf(tree, trees, pipeline));
    }
  }
  const Outline::Size size = SizeOf(request.layout.size(), links);
  return std::make_unique<Relays>(size, request.root, std::move(links));
}

}  // namespace tutti
