#ifndef TUTTI_SCHEDULE_SIMULATE_CLUSTER_MODEL_H_
#define TUTTI_SCHEDULE_SIMULATE_CLUSTER_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tutti/implementation.h"

namespace tutti {

// One kind of link of a machine: those between neighbours at one level of it.
struct LinkClass {
  std::string name;  // "within tasks"
  LinkCost cost;

  // So many consecutive tasks are joined by such links, or by those of the
  // classes before. 0: all tasks.
  int tasks = 0;
};

// Consecutive tasks that run on the same processors.
//
// What ranks of a host pass each other, reduce and copy is work of its
// processors, any of them one piece at a time. Links that leave a host work on
// their own.
struct Host {
  int tasks = 0;       // So many. 0: all.
  int processors = 0;  // 0: no hosts; each rank has a processor of its own.

  // The ranks of a task are started by one thread, which itself does all that
  // has to do with chunks of at most so many bytes: as the engine does,
  // kInlineBytes (schedule_run.h).
  double inline_bytes = 256 << 10;
};

// A machine to simulate: what its links and its arithmetic cost.
//
// Links go from the inside to the outside. Those of the first class join the
// ranks of one task; each rank has its own. Those of any other class join what
// the class before leaves apart, the tasks or groups of tasks, all of whose
// ranks share one. A link carries its bandwidth in each direction at once.
struct ClusterModel {
  std::vector<LinkClass> links;

  // Each message occupies a link for this much longer than its bytes take.
  double seconds_per_message = 0;

  // Of the result; what one rank, or one processor of a host, does.
  double reduced_bytes_per_second = 10e9;
  double copied_bytes_per_second = 10e9;

  Host host;  // All hosts are alike.
};

// How many hosts so many tasks need. REQUIRES: CheckCluster() is OK, and there
// are processors.
int NumHosts(const Host& host, int num_tasks);

// The machine that algorithms are chosen for: "within tasks", "between tasks".
ClusterModel ClusterOf(const CostModel& model = {});

// Errors: INVALID_ARGUMENT naming the field, if there is no class, a time is
// negative or a rate not positive, if a host has less than nothing, or if the
// classes do not go from the inside to the outside: 1 task, multiples of the
// class before, all tasks.
absl::Status CheckCluster(const ClusterModel& cluster);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_CLUSTER_MODEL_H_
