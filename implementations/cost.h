#ifndef TUTTI_IMPLEMENTATIONS_COST_H_
#define TUTTI_IMPLEMENTATIONS_COST_H_

#include <algorithm>
#include <vector>

#include "framework/group_layout.h"
#include "framework/implementation_traits.h"

namespace tutti {

// Seconds for `messages` one after the other that carry `bytes` in all. (R. W.
// Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994.)
inline double TransferSeconds(const LinkCost& link, double messages,
                              double bytes) {
  return messages * link.latency_seconds + bytes / link.bytes_per_second;
}

// True if some members are in other processes than others.
inline bool SpansProcesses(const CostQuery& query) {
  return !query.one_process && query.layout.num_tasks() > 1;
}

// The most members that a task has, and the fewest.
int LargestTask(const GroupLayout& layout);
int SmallestTask(const GroupLayout& layout);

// How many members of one process, of that with the most, send to another
// process where rank r sends to `peer_of(r)`, which may be r itself.
template <typename PeerOf>
int NumLeaving(const CostQuery& query, PeerOf peer_of) {
  if (!SpansProcesses(query)) return 0;
  const GroupLayout& layout = query.layout;
  std::vector<int> leaving(layout.num_tasks());
  for (int rank = 0; rank < layout.size(); ++rank) {
    const int task = layout.task_of(rank);
    if (layout.task_of(peer_of(rank)) != task) ++leaving[task];
  }
  return *std::max_element(leaving.begin(), leaving.end());
}

// What members send, round after round: messages one after the other, and
// blocks. In a round in which some send to other processes, the others wait for
// them.
class Traffic {
 public:
  // A round in which members send `messages` messages that hold `blocks` blocks
  // in all, `num_leaving` members of one process to other processes.
  void Add(int num_leaving, double messages, double blocks);

  void Add(const Traffic& more);

  // The same `times` times, one after the other.
  Traffic Times(int times) const;

  // The same by so many members of each process, at the same time.
  Traffic ByMembers(int num_members) const;

  double Seconds(const CostModel& model, double block_bytes) const;

  // The same where the data is cut into pieces, of which some are on their way
  // within processes while others are between them.
  double SecondsInPieces(const CostModel& model, double block_bytes,
                         int num_pieces) const;

 private:
  struct Load {
    double messages = 0;
    double blocks = 0;
  };
  Load within_;
  Load between_;  // Blocks of all members of a process.
};

// The bytes of one of n blocks.
inline double BlockBytes(const CostQuery& query) {
  return static_cast<double>(query.bytes) / query.layout.size();
}

// Each member sends n - 1 blocks, one after the other, to the next one of a
// ring that leaves every process once.
Traffic RingTraffic(const CostQuery& query);
double RingSeconds(const CostQuery& query);

// Each member sends every other member a block.
Traffic ToAllTraffic(const CostQuery& query);
double ToAllSeconds(const CostQuery& query);

// One member, wherever it is, sends every other member a block, or they send to
// it.
Traffic FromRootTraffic(const CostQuery& query);
double FromRootSeconds(const CostQuery& query);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_COST_H_
