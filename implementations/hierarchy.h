#ifndef TUTTI_IMPLEMENTATIONS_HIERARCHY_H_
#define TUTTI_IMPLEMENTATIONS_HIERARCHY_H_

#include <vector>

#include "framework/collective_type.h"
#include "framework/group_layout.h"
#include "framework/implementation_traits.h"
#include "implementations/cost.h"

namespace tutti {

// True if all tasks have the same number of devices.
bool IsEven(const GroupLayout& layout);

// The tasks of a group as one rank sees them. Immutable.
class Hierarchy {
 public:
  // The layout outlives this. REQUIRES: 0 <= rank < layout.size().
  Hierarchy(const GroupLayout& layout, int rank);

  int num_tasks() const { return layout_.num_tasks(); }
  int task() const { return layout_.task_of(rank_); }

  // The ranks of the own task, and which of them this one is.
  const std::vector<int>& devices() const { return layout_.tasks()[task()]; }
  int num_devices() const { return static_cast<int>(devices().size()); }
  int device() const { return device_; }

  // The ranks that are number `device` in their tasks, by task. REQUIRES: every
  // task has one.
  std::vector<int> Column(int device) const;

 private:
  const GroupLayout& layout_;
  const int rank_;
  const int device_;
};

// Prices a part of a collective by the layout it works on.
using PartTraffic = Traffic (*)(const CostQuery& query);

// What such a part takes among the devices of each task, of the largest one
// where they differ.
Traffic TrafficInTask(const CostQuery& whole, PartTraffic part,
                      CollectiveType type);

// What it takes among tasks, done at the same time by `num_devices` devices of
// each task.
Traffic TrafficAcrossTasks(const CostQuery& whole, int num_devices,
                           PartTraffic part, CollectiveType type);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_HIERARCHY_H_
