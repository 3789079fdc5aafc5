#include "examples/flow_graph/flow_graph_builder.h"

#include <cstring>
#include <utility>

#include "tutti/reduction.h"
#include "tutti/tensor.h"

using tbb::flow::continue_msg;
using tutti::Space;

FlowGraphBuilder::FlowGraphBuilder(tbb::flow::graph& graph,
                                   const tutti::CollectiveRequest& collective,
                                   std::vector<tutti::Tensor>& inputs,
                                   std::vector<tutti::Tensor>& outputs)
    : graph_(graph),
      collective_(collective),
      inputs_(inputs),
      outputs_(outputs),
      start_(graph, [](continue_msg) {}),
      end_(graph, [](continue_msg) {}) {}

void FlowGraphBuilder::AddScratch(int rank, int64_t num_bytes) {
  scratch_[rank].resize(num_bytes);
}

FlowGraphBuilder::NodeId FlowGraphBuilder::AddCopy(
    const tutti::CopyNode& node, absl::Span<const NodeId> after) {
  return Add(after, [this, node] {
    std::byte* const into = Address(node.into);
    std::memmove(into, Address(node.from), node.into.num_bytes);
    return node.finish ? Finish(into, ElementsIn(node.into)) : absl::OkStatus();
  });
}

FlowGraphBuilder::NodeId FlowGraphBuilder::AddReduce(
    const tutti::ReduceNode& node, absl::Span<const NodeId> after) {
  return Add(after, [this, node] {
    std::vector<const uint8_t*> operands;
    for (const tutti::Region& operand : node.operands) {
      operands.push_back(reinterpret_cast<const uint8_t*>(Address(operand)));
    }
    auto* const output = reinterpret_cast<uint8_t*>(Address(node.into));
    return tutti::Fold(collective_.dtype, collective_.merge_op,
                       node.finish ? collective_.final_op : tutti::FinalOp(),
                       {.inputs = operands,
                        .outputs = absl::MakeConstSpan(&output, 1),
                        .num_bytes = node.into.num_bytes,
                        .group_size = collective_.group_size});
  });
}

// Adds a call that may end later: the node waits for its edges, `call` for
// `done`.
FlowGraphBuilder::NodeId FlowGraphBuilder::AddHostCall(
    tutti::HostCallNode node, absl::Span<const NodeId> after) {
  const NodeId id = Add(after, [] { return absl::OkStatus(); });
  Step& added = steps_.back();
  added.call = std::make_unique<CallNode>(
      graph_, tbb::flow::unlimited,
      [this, node = std::move(node)](continue_msg,
                                     CallNode::gateway_type& gateway) {
        Call(node, gateway);
      });
  tbb::flow::make_edge(added.node, *added.call);
  return id;
}

void FlowGraphBuilder::Call(const tutti::HostCallNode& node,
                            CallNode::gateway_type& gateway) {
  std::vector<absl::Span<const std::byte>> operands;
  for (const tutti::Region& region : node.reads) {
    operands.emplace_back(Address(region), region.num_bytes);
  }
  gateway.reserve_wait();
  node.call(operands, [this, &gateway](const absl::Status& status) {
    if (!status.ok()) Fail(status);
    gateway.try_put(continue_msg());
    gateway.release_wait();
  });
}

FlowGraphBuilder::NodeId FlowGraphBuilder::Add(
    absl::Span<const NodeId> after, std::function<absl::Status()> step) {
  const auto run = [this, step = std::move(step)](continue_msg) {
    const absl::Status status = step();
    if (!status.ok()) Fail(status);
  };
  Step& added = steps_.emplace_back(Node(graph_, run));
  added.is_first = after.empty();
  for (const NodeId id : after) {
    tbb::flow::make_edge(EndOf(steps_[id]), added.node);
    steps_[id].is_last = false;
  }
  return static_cast<NodeId>(steps_.size()) - 1;
}

void FlowGraphBuilder::Connect() {
  if (steps_.empty()) tbb::flow::make_edge(start_, end_);
  for (Step& step : steps_) {
    if (step.is_first) tbb::flow::make_edge(start_, step.node);
    if (step.is_last) tbb::flow::make_edge(EndOf(step), end_);
  }
}

std::vector<FlowGraphBuilder::NodeId> FlowGraphBuilder::LastSteps() const {
  std::vector<NodeId> last;
  for (size_t id = 0; id < steps_.size(); ++id) {
    if (steps_[id].is_last) last.push_back(static_cast<NodeId>(id));
  }
  return last;
}

tbb::flow::sender<continue_msg>& FlowGraphBuilder::EndOf(Step& step) {
  if (step.call == nullptr) return step.node;
  return tbb::flow::output_port<0>(*step.call);
}

void FlowGraphBuilder::Fail(const absl::Status& status) {
  std::call_once(failed_, [&] { status_ = status; });
}

absl::Status FlowGraphBuilder::Finish(std::byte* values,
                                      int64_t num_elements) const {
  return collective_.final_op.Apply(collective_.dtype, values, num_elements,
                                    collective_.group_size);
}

int64_t FlowGraphBuilder::ElementsIn(const tutti::Region& region) const {
  return region.num_bytes /
         static_cast<int64_t>(tutti::SizeOf(collective_.dtype));
}

std::byte* FlowGraphBuilder::Address(const tutti::Region& region) {
  switch (region.space) {
    case Space::kInput:
      return inputs_[region.rank].mutable_data() + region.offset_bytes;
    case Space::kData:
      return outputs_[region.rank].mutable_data() + region.offset_bytes;
    case Space::kScratch:
      break;
  }
  return scratch_[region.rank].data() + region.offset_bytes;
}
