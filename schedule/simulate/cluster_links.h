#ifndef TUTTI_SCHEDULE_SIMULATE_CLUSTER_LINKS_H_
#define TUTTI_SCHEDULE_SIMULATE_CLUSTER_LINKS_H_

#include "schedule/simulate/cluster_model.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Which links of a machine join two ranks of a group, and which one a rank has
// of a class (cluster_model.h).
//
// Immutable. Layout and cluster must outlive it. REQUIRES: CheckCluster() is
// OK.
class ClusterLinks {
 public:
  // Ranks are those of a layout in which they repeat with this period.
  ClusterLinks(const GroupLayout& layout, const ClusterModel& cluster,
               int period)
      : layout_(layout), cluster_(cluster), period_(period) {}

  int period() const { return period_; }

  int ClassOf(const OutlineRound::Transfer& transfer) const;

  int TaskOf(int rank) const { return layout_.task_of(rank); }

  bool IsBetweenTasks(const OutlineRound::Transfer& transfer) const {
    return TaskOf(transfer.from) != TaskOf(transfer.to);
  }

  // Whether the processors of one host pass it.
  bool IsInHost(const OutlineRound::Transfer& transfer) const;

  // The link of that class which `rank`, or the one that stands for it, has;
  // below the period.
  int PortOf(int rank, int link) const;

 private:
  // Of the tasks that links of this class, or of one before, join.
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
