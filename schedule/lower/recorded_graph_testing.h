#ifndef TUTTI_SCHEDULE_LOWER_RECORDED_GRAPH_TESTING_H_
#define TUTTI_SCHEDULE_LOWER_RECORDED_GRAPH_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tutti/collective.h"
#include "tutti/lowering.h"

namespace tutti {

// Records the graph that lowering makes, for tests to inspect and run. To
// record members lowered separately, call SetMember() before each; node ids
// continue from member to member. Every breach of the contract of GraphBuilder
// is a line in `complaints()`.
class RecordedGraph : public MemberGraphBuilder, public HostCallBuilder {
 public:
  using NodeId = GraphBuilder::NodeId;

  enum class Kind { kCopy, kReduce, kSend, kRecv, kHostCall };
  struct Node {
    Kind kind = Kind::kCopy;
    std::vector<Region> reads;
    std::optional<Region> written;
    bool finish = false;
    int rank = 0;  // Rank of the node, for kSend and kRecv.
    int peer = 0;
    int tag = 0;
    HostCall call;
    std::vector<NodeId> after;
  };

  void SetMember(int rank) { member_ = rank; }

  void AddScratch(int rank, int64_t num_bytes) override;
  NodeId AddCopy(const CopyNode& node, absl::Span<const NodeId> after) override;
  NodeId AddReduce(const ReduceNode& node,
                   absl::Span<const NodeId> after) override;
  NodeId AddSend(const SendNode& node, absl::Span<const NodeId> after) override;
  NodeId AddRecv(const RecvNode& node, absl::Span<const NodeId> after) override;
  NodeId AddHostCall(HostCallNode node,
                     absl::Span<const NodeId> after) override;

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<std::string>& complaints() const { return complaints_; }

  // By node: the receive of each send, and the send of each receive; -1 for
  // other nodes.
  std::vector<int> Partners() const;

  // Buffers of a group.
  struct Memory {
    std::vector<std::byte*> inputs;   // By rank.
    std::vector<std::byte*> outputs;  // In place: equal to the input.
  };

  // Runs all nodes, one at a time, in an order derived from the seed. A send
  // may complete before or after its receive.
  //
  // Returns false if some node never starts. This happens after a host call
  // that fails, which is also a complaint. It also happens if a host call is
  // not done when no other node can run.
  bool Run(const CollectiveRequest& collective, const Memory& memory,
           uint32_t seed);

  // Describes two nodes that use the same bytes without a fixed order, at least
  // one of them to write; empty if there are none. Takes time in the square of
  // the number of nodes.
  std::string FindRace(const Memory& memory) const;

 private:
  class Running;

  NodeId Add(Node node, absl::Span<const NodeId> after);
  std::byte* Address(const Memory& memory, const Region& region) const;

  int member_ = 0;
  std::vector<Node> nodes_;
  mutable std::map<int, std::vector<std::byte>> scratch_;  // By rank.
  std::vector<std::string> complaints_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_LOWER_RECORDED_GRAPH_TESTING_H_
