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

// The steps of a collective as nodes of a oneTBB flow graph, between `start`
// and `end`. Make it, give it to LowerGroup(), and to AddOutfeed() for what the
// host is to get, call Connect(), and join `start` and `end` to the rest of the
// graph. Whenever `start` gets a message the
// collective runs on `inputs` and `outputs`; these, the graph and the builder
// outlive that.
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

  // Those that no other waits for: who waits for them waits for all.
  std::vector<NodeId> LastSteps() const;

  // What waits for nothing waits for `start`; `end` waits for what nothing
  // waits for.
  void Connect();

  Node& start() { return start_; }
  Node& end() { return end_; }
  size_t num_steps() const { return steps_.size(); }

  // The first error of a merge, a final op or a host call, once the graph is at
  // rest.
  const absl::Status& status() const { return status_; }

 private:
  using CallNode =
      tbb::flow::async_node<tbb::flow::continue_msg, tbb::flow::continue_msg>;

  struct Step {
    Node node;
    std::unique_ptr<CallNode> call;  // What comes after `node`, of a host call.
    bool is_first = true;            // Waits for no other.
    bool is_last = true;             // No other waits for it.
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
  absl::Status status_;  // Written once, by who sets `failed_`.
};

#endif  // TUTTI_EXAMPLES_FLOW_GRAPH_FLOW_GRAPH_BUILDER_H_
