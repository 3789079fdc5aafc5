#ifndef TUTTI_IMPLEMENTATIONS_PARTS_COST_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_COST_H_

#include <algorithm>
#include <vector>

#include "tutti/implementation.h"
#include "tutti/params.h"

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

// Messages between processes at one time, of the process with the most.
struct Crossings {
  int leaving = 0;
  int in_all = 0;  // With those that arrive.

  // That leave any process; where times differ, their mean.
  double of_all_processes = 0;
};

// One leaves a process, or as many leave each as arrive; none within one
// process.
Crossings OneWay(const CostQuery& query, double of_all_processes = 1);
Crossings BothWays(const CostQuery& query, int leaving = 1);

// Where rank r sends to `peer_of(r)`, which may be r itself.
template <typename PeerOf>
Crossings CrossingsOf(const CostQuery& query, PeerOf peer_of) {
  if (!SpansProcesses(query)) return {};
  const GroupLayout& layout = query.layout;
  std::vector<Crossings> of_task(layout.num_tasks());
  int num_leaving = 0;
  for (int rank = 0; rank < layout.size(); ++rank) {
    const int from = layout.task_of(rank);
    const int to = layout.task_of(peer_of(rank));
    if (from == to) continue;
    ++of_task[from].leaving;
    ++of_task[from].in_all;
    ++of_task[to].in_all;
    ++num_leaving;
  }
  Crossings most{.of_all_processes = static_cast<double>(num_leaving)};
  for (const Crossings& task : of_task) {
    most.leaving = std::max(most.leaving, task.leaving);
    most.in_all = std::max(most.in_all, task.in_all);
  }
  return most;
}

// What members send, round after round: messages one after the other, and
// blocks. In a round in which some send to other processes, the others wait for
// them. Where processes share processors (CostModel::shared), all of it takes
// at least what these take for it.
class Traffic {
 public:
  // A round in which members send `messages` messages that hold `blocks` blocks
  // in all; each of them crosses so with those of other members.
  void Add(const Crossings& crossings, double messages, double blocks);

  // The same where the messages are sent at once, not one after the other:
  // between processes those after the first one take the gap alone.
  void AddAtOnce(const Crossings& crossings, double messages, double blocks);

  // Blocks that a member sets aside as they come, to read them once more: from
  // its own process, and from others.
  void SetAside(double within, double between);

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
  double SecondsOfProcessors(const CostModel& model, double block_bytes) const;

  struct Load {
    double messages = 0;
    double blocks = 0;
  };
  Load within_;
  Load between_;          // Blocks of all members of a process.
  double crossings_ = 0;  // Messages of all members, out of it and into it.
  double set_aside_ = 0;  // Blocks of one member, that came from others.
  Load in_all_;           // Between processes: of all members of all.
};

// The bytes of one of n blocks.
inline double BlockBytes(const CostQuery& query) {
  return static_cast<double>(query.bytes) / query.layout.size();
}

// Each member sends n - 1 blocks, one after the other, to the next one of a
// ring that leaves every process once.
Traffic RingTraffic(const CostQuery& query);
double RingSeconds(const CostQuery& query);

// Each member sends every other member a block, to those of other processes at
// once. (Some implementations do so a few at a time.)
Traffic ToAllTraffic(const CostQuery& query);
double ToAllSeconds(const CostQuery& query);

// One member, wherever it is, sends every other member a block, or they send to
// it, between processes at once.
Traffic FromRootTraffic(const CostQuery& query);
double FromRootSeconds(const CostQuery& query);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_COST_H_
