#ifndef TUTTI_EXAMPLES_FLOW_GRAPH_FLOW_GRAPH_BUILDER_H_
#define TUTTI_EXAMPLES_FLOW_GRAPH_FLOW_GRAPH_BUILDER_H_

#include <oneapi/tbb/flow_graph.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/lowering.h"
#include "tutti/tensor.h"

// Builds the steps of a collective as nodes of a oneTBB flow graph, between
// `start` and `end`. Usage: make the builder, pass it to LowerGroup(), and to
// AddOutfeed() for data that the host receives; call Connect(); join `start`
// and `end` to the rest of the graph. Each message to `start` runs the
// collective on `inputs` and `outputs`. These, the graph and the builder must
// outlive the run.
class FlowGraphBuilder : public tutti::GraphBuilder,
                         public tutti::HostCallBuilder {
 public:
  using NodeId = tutti::GraphBuilder::NodeId;
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

  FlowGraphBuilder(tbb::flow::graph& graph,
                   const tutti::CollectiveRequest& collective,
                   std::vector<tutti::Tensor>& inputs,
                   std::vector<tutti::Tensor>& outputs);

  void AddScratch(int rank, int64_t num_bytes) override;
  NodeId AddCopy(const tutti::CopyNode& node,
                 absl::Span<const NodeId> after) override;
  NodeId AddReduce(const tutti::ReduceNode& node,
                   absl::Span<const NodeId> after) override;
  NodeId AddHostCall(tutti::HostCallNode node,
                     absl::Span<const NodeId> after) override;

  // Steps that no other step waits for: waiting for them waits for all.
  std::vector<NodeId> LastSteps() const;

  // Connects `start` to the steps without predecessors, and the last steps to
  // `end`.
  void Connect();

  Node& start() { return start_; }
  Node& end() { return end_; }
  size_t num_steps() const { return steps_.size(); }

  // First error of a merge, a final op or a host call. Valid once the graph is
  // idle.
  const absl::Status& status() const { return status_; }

 private:
  using CallNode =
      tbb::flow::async_node<tbb::flow::continue_msg, tbb::flow::continue_msg>;

  struct Step {
    Node node;
    std::unique_ptr<CallNode> call;  // For a host call: follows `node`.
    bool is_first = true;            // Waits for no other step.
    bool is_last = true;             // No other step waits for it.
  };

  NodeId Add(absl::Span<const NodeId> after,
             std::function<absl::Status()> step);
  void Call(const tutti::HostCallNode& node, CallNode::gateway_type& gateway);
  void Fail(const absl::Status& status);
  static tbb::flow::sender<tbb::flow::continue_msg>& EndOf(Step& step);
  absl::Status Finish(std::byte* values, int64_t num_elements) const;
  int64_t ElementsIn(const tutti::Region& region) const;
  std::byte* Address(const tutti::Region& region);

  tbb::flow::graph& graph_;
  const tutti::CollectiveRequest& collective_;
  std::vector<tutti::Tensor>& inputs_;
  std::vector<tutti::Tensor>& outputs_;
  std::map<int, std::vector<std::byte>> scratch_;  // By rank.
  Node start_;
  Node end_;
  std::deque<Step> steps_;  // By id. Nodes do not move.
  std::once_flag failed_;
  absl::Status status_;  // Written once, by the step that sets `failed_`.
};

#endif  // TUTTI_EXAMPLES_FLOW_GRAPH_FLOW_GRAPH_BUILDER_H_
