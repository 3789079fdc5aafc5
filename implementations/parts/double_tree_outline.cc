#include "implementations/parts/double_tree_outline.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "implementations/parts/double_tree.h"
#include "implementations/parts/pipelines.h"

namespace tutti {
namespace {

using Transfer = OutlineRound::Transfer;

// Rounds in which a rank handles the first chunk of a tree; 0 for never. Each
// further chunk follows one round after the chunk before.
struct Node {
  TreePlace peers;     // Peers as ranks.
  int from_right = 0;  // Adds the right child's sum.
  int from_left = 0;
  int up = 0;      // Sends its sum to the parent.
  int result = 0;  // Has the result.
};

struct Tree {
  int num_chunks = 0;
  std::vector<Node> nodes;  // By rank.
  int last_round = 0;

  // Returns true if a rank that handles the first chunk in round `start`
  // handles some chunk in `round`.
  bool HasChunk(int start, int round) const {
    return start > 0 && round >= start && round < start + num_chunks;
  }
};

// Computes one tree of a pair.
class TreeRounds {
 public:
  TreeRounds(int tree, const Pipeline& pipeline)
      : tree_(tree),
        order_(pipeline.order),
        num_chunks_(static_cast<int>(pipeline.subdivs.size())),
        nodes_(order_.size()) {}

  // Returns the tree. Call once.
  Tree Build() {
    const int root = RootOfTree(tree_, size());
    AddDown(root, AddUp(root));
    return {.num_chunks = num_chunks_,
            .nodes = std::move(nodes_),
            .last_round = last_result_ + num_chunks_ - 1};
  }

 private:
  int size() const { return static_cast<int>(order_.size()); }
  Node& NodeAt(int position) { return nodes_[order_[position]]; }

  // Returns the round in which the sum of the subtree is complete.
  int AddUp(int position) {
    const TreePlace place = PlaceInTree(tree_, position, size());
    Node& node = NodeAt(position);
    int summed = 0;
    if (place.right >= 0) {
      node.peers.right = order_[place.right];
      summed = node.from_right = AddChild(position, place.right, summed);
    }
    if (place.left >= 0) {
      node.peers.left = order_[place.left];
      summed = node.from_left = AddChild(position, place.left, summed);
    }
    return summed;
  }

  // Returns the round in which the child's sum goes to the parent. The parent
  // is ready since round `summed`.
  int AddChild(int parent, int child, int summed) {
    const int up = std::max(AddUp(child), summed) + 1;
    NodeAt(child).peers.parent = order_[parent];
    NodeAt(child).up = up;
    return up;
  }

  void AddDown(int position, int result) {
    NodeAt(position).result = result;
    last_result_ = std::max(last_result_, result);
    const TreePlace place = PlaceInTree(tree_, position, size());
    for (const int child : {place.left, place.right}) {
      if (child >= 0) AddDown(child, result + 1);
    }
  }

  const int tree_;
  const std::vector<int>& order_;
  const int num_chunks_;
  std::vector<Node> nodes_;
  int last_result_ = 0;
};

std::vector<Tree> TreesOf(const PlanRequest& request) {
  std::vector<Tree> trees;
  for (const Pipeline& pipeline : PipelinesOf(request)) {
    for (const int tree : {0, 1}) {
      trees.push_back(TreeRounds(tree, pipeline).Build());
    }
  }
  return trees;
}

class DoubleTrees : public Outline {
 public:
  DoubleTrees(const Size& size, std::vector<Tree> trees)
      : Outline(size), trees_(std::move(trees)) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    for (int rank = first; rank < end; ++rank) AppendOf(rank, round, into);
  }

  int64_t NumResults(int round, int rank) const override {
    if (size().num_ranks == 1) return size().num_chunks;
    int64_t num_results = 0;
    for (const Tree& tree : trees_) {
      num_results += tree.HasChunk(tree.nodes[rank].result, round);
    }
    return num_results;
  }

 private:
  void AppendOf(int rank, int round, OutlineRound* into) const {
    if (size().num_ranks == 1) {
      into->work.push_back({.rank = rank, .copied_chunks = size().num_chunks});
      return;
    }
    const size_t before = into->transfers.size();
    int64_t reduced = 0;
    for (const Tree& tree : trees_) {
      const Node& node = tree.nodes[rank];
      const auto is_now = [&](int start) {
        return tree.HasChunk(start, round);
      };
      const auto send = [&](int to) {
        if (to >= 0) AddTransfer({rank, to, /*chunks=*/1}, before, into);
      };
      reduced += is_now(node.from_right) + is_now(node.from_left);
      if (is_now(node.up)) send(node.peers.parent);
      if (is_now(node.result + 1)) {
        send(node.peers.left);
        send(node.peers.right);
      }
    }
    std::sort(into->transfers.begin() + static_cast<int64_t>(before),
              into->transfers.end());
    if (reduced > 0) {
      into->work.push_back({.rank = rank, .reduced_chunks = reduced});
    }
  }

  // Adds to the transfers of the rank, which begin at index `before`.
  static void AddTransfer(const Transfer& transfer, size_t before,
                          OutlineRound* into) {
    auto& all = into->transfers;
    for (size_t i = before; i < all.size(); ++i) {
      if (all[i].to != transfer.to) continue;
      all[i].chunks += transfer.chunks;
      all[i].messages += transfer.messages;
      return;
    }
    all.push_back(transfer);
  }

  const std::vector<Tree> trees_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> DoubleTreeOutline(
    const PlanRequest& request) {
  std::vector<Tree> trees = TreesOf(request);
  const int num_ranks = request.layout.size();
  int last_round = 0;
  for (const Tree& tree : trees) {
    last_round = std::max(last_round, tree.last_round);
  }
  const auto num_subdivs = static_cast<int>(request.subdiv_offsets.size());
  // Each link is used up and down.
  const int64_t links = 2 * static_cast<int64_t>(trees.size());
  return std::make_unique<DoubleTrees>(
      Outline::Size{.num_ranks = num_ranks,
                    .num_chunks = 2 * num_subdivs,
                    .num_rounds = num_ranks == 1 ? 1 : last_round + 1,
                    .period = num_ranks,
                    .most_transfers = links * (num_ranks - 1)},
      std::move(trees));
}

}  // namespace tutti
