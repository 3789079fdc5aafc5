#ifndef TUTTI_SCHEDULE_SIMULATE_CLUSTER_MODEL_H_
#define TUTTI_SCHEDULE_SIMULATE_CLUSTER_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tutti/implementation.h"

namespace tutti {

// A class of links of a machine: the links between neighbours at one level.
struct LinkClass {
  std::string name;  // "within tasks"
  LinkCost cost;

  // Number of consecutive tasks that links of this class or of earlier classes
  // join. 0: all tasks.
  int tasks = 0;
};

// Consecutive tasks that run on the same processors.
//
// Transfers between ranks of a host, reductions and copies are work of its
// processors. Each processor does one piece of work at a time. Links that leave
// a host need no processor.
struct Host {
  int tasks = 0;       // Number of tasks. 0: all.
  int processors = 0;  // 0: no hosts; each rank has its own processor.

  // Largest chunk that the thread of a task works on itself. That thread starts
  // all ranks of the task. The engine does the same up to kInlineBytes
  // (schedule_run.h).
  double inline_bytes = 256 << 10;
};

// A machine to simulate: the costs of its links and its arithmetic.
//
// Links are ordered from the inside to the outside. Links of the first class
// join the ranks of one task; each rank has a link. Links of any other class
// join the tasks, or groups of tasks, that the class before leaves apart. All
// ranks of such a group share one link. A link carries its bandwidth in both
// directions at once.
struct ClusterModel {
  std::vector<LinkClass> links;

  // Additional time for which each message occupies a link.
  double seconds_per_message = 0;

  // Rates of one rank, or of one processor of a host. Bytes are bytes of the
  // result.
  double reduced_bytes_per_second = 10e9;
  double copied_bytes_per_second = 10e9;

  Host host;  // All hosts are alike.
};

// Returns the number of hosts for `num_tasks` tasks. REQUIRES: CheckCluster()
// is OK, and hosts have processors.
int NumHosts(const Host& host, int num_tasks);

// Returns the machine that algorithms are chosen for: "within tasks", "between
// tasks".
ClusterModel ClusterOf(const CostModel& model = {});

// Errors: INVALID_ARGUMENT naming the field, in these cases: there is no class;
// a time is negative; a rate is not positive; a host has a negative number; or
// the classes do not go from the inside to the outside (1 task, multiples of
// the class before, all tasks).
absl::Status CheckCluster(const ClusterModel& cluster);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_CLUSTER_MODEL_H_
