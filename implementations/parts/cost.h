#ifndef TUTTI_IMPLEMENTATIONS_PARTS_COST_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_COST_H_

#include <algorithm>
#include <vector>

#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {

// Seconds for `messages` messages, one after the other, with `bytes` bytes in
// total. (R. W. Hockney, "The communication challenge for MPP", Parallel
// Computing 20, 1994.)
inline double TransferSeconds(const LinkCost& link, double messages,
                              double bytes) {
  return messages * link.latency_seconds + bytes / link.bytes_per_second;
}

// Returns true if the members are in several processes.
inline bool SpansProcesses(const CostQuery& query) {
  return !query.one_process && query.layout.num_tasks() > 1;
}

// Number of members of the largest and of the smallest task.
int LargestTask(const GroupLayout& layout);
int SmallestTask(const GroupLayout& layout);

// Simultaneous messages between processes, counted at the process with the
// most.
struct Crossings {
  int leaving = 0;
  int in_all = 0;  // Leaving and arriving.

  // Messages that leave any process; a mean if it varies over time.
  double of_all_processes = 0;
};

// Crossings of one message out of a process, or of `leaving` messages out of
// each process and as many into it. None within one process.
Crossings OneWay(const CostQuery& query, double of_all_processes = 1);
Crossings BothWays(const CostQuery& query, int leaving = 1);

// Crossings if rank r sends to `peer_of(r)`, which may be r itself.
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

// Traffic of a member, round after round: messages one after the other, and
// blocks. If some members send to other processes in a round, all others wait
// for them. Processes that share processors (CostModel::shared) need at least
// the processors' time for all messages.
class Traffic {
 public:
  // Adds a round in which each member sends `messages` messages with `blocks`
  // blocks in total. `crossings` counts the messages that members send at the
  // same time.
  void Add(const Crossings& crossings, double messages, double blocks);

  // Adds a round like Add(), but the messages are sent at once. Between
  // processes, messages after the first take only the gap.
  void AddAtOnce(const Crossings& crossings, double messages, double blocks);

  // Adds blocks that a member stores on arrival and reads once more: from its
  // own process, and from others.
  void SetAside(double within, double between);

  void Add(const Traffic& more);

  // Returns this traffic `times` times, one after the other.
  Traffic Times(int times) const;

  // Returns this traffic done by `num_members` members of each process at the
  // same time.
  Traffic ByMembers(int num_members) const;

  double Seconds(const CostModel& model, double block_bytes) const;

  // Seconds if the data is cut into pieces: some pieces move within processes
  // while others move between them.
  double SecondsInPieces(const CostModel& model, double block_bytes,
                         int num_pieces) const;

 private:
  double SecondsOfProcessors(const CostModel& model, double block_bytes) const;

  struct Load {
    double messages = 0;
    double blocks = 0;
  };
  Load within_;
  Load between_;          // For a process's members.
  double crossings_ = 0;  // Messages of a process, both ways.
  double set_aside_ = 0;  // Blocks of a member, from others.
  Load in_all_;           // Between processes, of all members.
};

// Size of one of n blocks.
inline double BlockBytes(const CostQuery& query) {
  return static_cast<double>(query.bytes) / query.layout.size();
}

// Traffic in which each member sends n - 1 blocks, one after the other, to its
// next member in a ring. The ring leaves every process once.
Traffic RingTraffic(const CostQuery& query);
double RingSeconds(const CostQuery& query);

// Traffic in which each member sends every other member a block, to members of
// other processes at once. (Some implementations send a few at a time.)
Traffic ToAllTraffic(const CostQuery& query);
double ToAllSeconds(const CostQuery& query);

// Traffic in which a root sends every other member a block, or receives one
// from each. The root may be in any process. Messages between processes are
// sent at once.
Traffic FromRootTraffic(const CostQuery& query);
double FromRootSeconds(const CostQuery& query);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_COST_H_
