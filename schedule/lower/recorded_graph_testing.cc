#include "schedule/lower/recorded_graph_testing.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

void RecordedGraph::AddScratch(int rank, int64_t num_bytes) {
  if (num_bytes <= 0) complaints_.push_back("empty scratch");
  const auto [entry, is_new] = scratch_.try_emplace(rank, num_bytes);
  if (!is_new) complaints_.push_back(absl::StrCat("scratch twice: ", rank));
}

GraphBuilder::NodeId RecordedGraph::AddCopy(const CopyNode& node,
                                            absl::Span<const NodeId> after) {
  return Add({.kind = Kind::kCopy,
              .reads = {node.from},
              .written = node.into,
              .finish = node.finish},
             after);
}

GraphBuilder::NodeId RecordedGraph::AddReduce(const ReduceNode& node,
                                              absl::Span<const NodeId> after) {
  return Add({.kind = Kind::kReduce,
              .reads = node.operands,
              .written = node.into,
              .finish = node.finish},
             after);
}

GraphBuilder::NodeId RecordedGraph::AddSend(const SendNode& node,
                                            absl::Span<const NodeId> after) {
  return Add({.kind = Kind::kSend,
              .reads = {node.from},
              .rank = member_,
              .peer = node.peer,
              .tag = node.tag},
             after);
}

GraphBuilder::NodeId RecordedGraph::AddRecv(const RecvNode& node,
                                            absl::Span<const NodeId> after) {
  return Add({.kind = Kind::kRecv,
              .written = node.into,
              .rank = member_,
              .peer = node.peer,
              .tag = node.tag},
             after);
}

GraphBuilder::NodeId RecordedGraph::AddHostCall(
    HostCallNode node, absl::Span<const NodeId> after) {
  return Add({.kind = Kind::kHostCall,
              .reads = std::move(node.reads),
              .call = std::move(node.call)},
             after);
}

GraphBuilder::NodeId RecordedGraph::Add(Node node,
                                        absl::Span<const NodeId> after) {
  const auto id = static_cast<NodeId>(nodes_.size());
  node.after.assign(after.begin(), after.end());
  if (std::set<NodeId>(after.begin(), after.end()).size() != after.size()) {
    complaints_.push_back(absl::StrCat("node ", id, ": an edge twice"));
  }
  for (const NodeId before : after) {
    if (before >= 0 && before < id) continue;
    complaints_.push_back(absl::StrCat("node ", id, " after ", before));
  }
  std::vector<Region> regions = node.reads;
  if (node.written.has_value()) regions.push_back(*node.written);
  for (const Region& region : regions) {
    const bool may_differ = node.kind == Kind::kHostCall;
    if (region.num_bytes > 0 &&
        (may_differ || region.num_bytes == regions[0].num_bytes)) {
      continue;
    }
    complaints_.push_back(absl::StrCat("node ", id, ": wrong size"));
  }
  if (node.written.has_value() && node.written->space == Space::kInput) {
    complaints_.push_back(absl::StrCat("node ", id, " writes an input"));
  }
  nodes_.push_back(std::move(node));
  return id;
}

std::vector<int> RecordedGraph::Partners() const {
  std::vector<int> partners(nodes_.size(), -1);
  std::map<std::tuple<int, int, int>, int> sends;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.kind == Kind::kSend) {
      sends[{node.rank, node.peer, node.tag}] = static_cast<int>(i);
    }
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const auto send = sends.find({node.peer, node.rank, node.tag});
    if (node.kind != Kind::kRecv || send == sends.end()) continue;
    partners[i] = send->second;
    partners[send->second] = static_cast<int>(i);
  }
  return partners;
}

std::byte* RecordedGraph::Address(const Memory& memory,
                                  const Region& region) const {
  switch (region.space) {
    case Space::kInput:
      return memory.inputs[region.rank] + region.offset_bytes;
    case Space::kData:
      return memory.outputs[region.rank] + region.offset_bytes;
    case Space::kScratch:
      break;
  }
  return scratch_[region.rank].data() + region.offset_bytes;
}

// Starts and completes nodes until none is ready.
class RecordedGraph::Running {
 public:
  Running(RecordedGraph* graph, const CollectiveRequest& collective,
          const Memory& memory, uint32_t seed)
      : graph_(*graph),
        collective_(collective),
        memory_(memory),
        random_(seed),
        partners_(graph->Partners()),
        waits_(graph->nodes_.size()),
        started_(graph->nodes_.size()),
        dependents_(graph->nodes_.size()) {}

  bool Run() {
    for (size_t i = 0; i < waits_.size(); ++i) {
      for (const NodeId before : graph_.nodes_[i].after) {
        dependents_[before].push_back(static_cast<int>(i));
        ++waits_[i];
      }
      if (waits_[i] == 0) ready_.push_back(static_cast<int>(i));
    }
    while (!ready_.empty() || !ending_->empty()) {
      const size_t choice = random_() % (ready_.size() + ending_->size());
      if (choice < ready_.size()) {
        Start(TakeAt(&ready_, choice));
      } else {
        Complete(TakeAt(ending_.get(), choice - ready_.size()));
      }
    }
    return num_complete_ == waits_.size();
  }

 private:
  static int TakeAt(std::vector<int>* from, size_t index) {
    std::swap((*from)[index], from->back());
    const int taken = from->back();
    from->pop_back();
    return taken;
  }

  void Start(int i) {
    const Node& node = graph_.nodes_[i];
    started_[i] = true;
    if (node.kind == Kind::kCopy || node.kind == Kind::kReduce) {
      Compute(node);
      return Complete(i);
    }
    if (node.kind == Kind::kHostCall) return Call(i);
    const int partner = partners_[i];
    if (partner == -1 || !started_[partner]) return;
    const Node& recv = node.kind == Kind::kRecv ? node : graph_.nodes_[partner];
    const Node& send = node.kind == Kind::kSend ? node : graph_.nodes_[partner];
    std::memcpy(graph_.Address(memory_, *recv.written),
                graph_.Address(memory_, send.reads[0]),
                recv.written->num_bytes);
    ending_->push_back(i);
    ending_->push_back(partner);
  }

  void Call(int i) {
    std::vector<absl::Span<const std::byte>> operands;
    for (const Region& region : graph_.nodes_[i].reads) {
      operands.emplace_back(graph_.Address(memory_, region), region.num_bytes);
    }
    graph_.nodes_[i].call(operands, [&graph = graph_, ending = ending_,
                                     i](const absl::Status& status) {
      if (status.ok()) return ending->push_back(i);
      graph.complaints_.push_back(
          absl::StrCat("node ", i, ": ", status.ToString()));
    });
  }

  void Compute(const Node& node) {
    std::byte* const into = graph_.Address(memory_, *node.written);
    std::vector<const uint8_t*> operands;
    for (const Region& read : node.reads) {
      operands.push_back(
          reinterpret_cast<const uint8_t*>(graph_.Address(memory_, read)));
    }
    const int64_t num_bytes = node.written->num_bytes;
    const auto num_elements =
        num_bytes / static_cast<int64_t>(SizeOf(collective_.dtype));
    if (node.kind == Kind::kReduce) {
      auto* const output = reinterpret_cast<uint8_t*>(into);
      Fold(collective_.dtype, collective_.merge_op,
           node.finish ? collective_.final_op : FinalOp(),
           {.inputs = operands,
            .outputs = absl::MakeConstSpan(&output, 1),
            .num_bytes = num_bytes,
            .group_size = collective_.group_size})
          .IgnoreError();
      return;
    }
    std::memmove(into, operands[0], num_bytes);
    if (!node.finish) return;
    collective_.final_op
        .Apply(collective_.dtype, into, num_elements, collective_.group_size)
        .IgnoreError();
  }

  void Complete(int i) {
    ++num_complete_;
    for (const int next : dependents_[i]) {
      if (--waits_[next] == 0) ready_.push_back(next);
    }
  }

  RecordedGraph& graph_;
  const CollectiveRequest& collective_;
  const Memory& memory_;
  std::mt19937 random_;
  const std::vector<int> partners_;
  std::vector<int> waits_;
  std::vector<bool> started_;
  std::vector<std::vector<int>> dependents_;
  std::vector<int> ready_;

  // Transfers whose bytes have moved, and host calls that are done. A host call
  // may be done after the end of this object.
  const std::shared_ptr<std::vector<int>> ending_ =
      std::make_shared<std::vector<int>>();
  size_t num_complete_ = 0;
};

bool RecordedGraph::Run(const CollectiveRequest& collective,
                        const Memory& memory, uint32_t seed) {
  return Running(this, collective, memory, seed).Run();
}

// Gives each node a start event and an end event. Bytes of a transfer move in
// an event after both starts and before both ends.
std::string RecordedGraph::FindRace(const Memory& memory) const {
  const std::vector<int> partners = Partners();
  const size_t size = nodes_.size();
  const auto start = [](size_t node) { return 3 * node; };
  const auto move = [&](size_t node) {
    const bool is_send = nodes_[node].kind == Kind::kSend;
    return 3 * (is_send ? node : static_cast<size_t>(partners[node])) + 1;
  };
  const auto end = [](size_t node) { return 3 * node + 2; };

  std::vector<std::vector<size_t>> next(3 * size);
  for (size_t i = 0; i < size; ++i) {
    next[start(i)].push_back(end(i));
    for (const NodeId before : nodes_[i].after) {
      next[end(before)].push_back(start(i));
    }
    if (partners[i] == -1) continue;
    next[start(i)].push_back(move(i));
    next[move(i)].push_back(end(i));
  }
  std::vector<std::vector<bool>> reaches(3 * size);
  const auto search = [&](size_t from) {
    std::vector<bool>& seen = reaches[from];
    seen.resize(3 * size);
    std::vector<size_t> pending = {from};
    while (!pending.empty()) {
      const size_t event = pending.back();
      pending.pop_back();
      if (seen[event]) continue;
      seen[event] = true;
      pending.insert(pending.end(), next[event].begin(), next[event].end());
    }
  };
  for (size_t event = 0; event < 3 * size; ++event) search(event);

  struct Access {
    size_t node, from, to;
    const std::byte* begin;
    const std::byte* end;
    bool writes;
  };
  std::vector<Access> accesses;
  for (size_t i = 0; i < size; ++i) {
    const bool sends = nodes_[i].kind == Kind::kSend;
    const bool receives = nodes_[i].kind == Kind::kRecv;
    const auto add = [&](const Region& region, bool writes) {
      const std::byte* const begin = Address(memory, region);
      accesses.push_back({i, sends || receives ? move(i) : start(i),
                          sends ? move(i) : end(i), begin,
                          begin + region.num_bytes, writes});
    };
    for (const Region& region : nodes_[i].reads) add(region, false);
    if (nodes_[i].written.has_value()) add(*nodes_[i].written, true);
  }
  for (const Access& a : accesses) {
    for (const Access& b : accesses) {
      const bool conflict = a.node < b.node && (a.writes || b.writes) &&
                            a.begin < b.end && b.begin < a.end;
      if (!conflict || reaches[a.to][b.from] || reaches[b.to][a.from]) continue;
      return absl::StrCat("nodes ", a.node, " and ", b.node, " race");
    }
  }
  return "";
}

}  // namespace tutti
