#ifndef TUTTI_SCHEDULE_SIMULATE_CLUSTER_LINKS_H_
#define TUTTI_SCHEDULE_SIMULATE_CLUSTER_LINKS_H_

#include "schedule/simulate/cluster_model.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Finds the class of links (cluster_model.h) that joins two ranks of a group,
// and a rank's link of each class.
//
// Immutable. Layout and cluster outlive this. REQUIRES: CheckCluster() is OK.
class ClusterLinks {
 public:
  // Ranks are ranks of `layout`. `period` is the number of ranks after which
  // they repeat.
  ClusterLinks(const GroupLayout& layout, const ClusterModel& cluster,
               int period)
      : layout_(layout), cluster_(cluster), period_(period) {}

  int period() const { return period_; }

  int ClassOf(const OutlineRound::Transfer& transfer) const;

  int TaskOf(int rank) const { return layout_.task_of(rank); }

  bool IsBetweenTasks(const OutlineRound::Transfer& transfer) const {
    return TaskOf(transfer.from) != TaskOf(transfer.to);
  }

  // Returns true if the processors of one host do the transfer.
  bool IsInHost(const OutlineRound::Transfer& transfer) const;

  // Returns the link of class `link` that `rank` uses. Ranks beyond the period
  // use the link of the rank that stands for them; all results are below the
  // period.
  int PortOf(int rank, int link) const;

 private:
  // Returns the number of the group of tasks that links of this class or of
  // earlier classes join.
  int GroupIn(int link, int task) const {
    const int tasks = cluster_.links[link].tasks;
    return tasks == 0 ? 0 : task / tasks;
  }

  const GroupLayout& layout_;
  const ClusterModel& cluster_;
  const int period_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_CLUSTER_LINKS_H_
