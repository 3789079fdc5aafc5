#ifndef TUTTI_IMPLEMENTATIONS_HIERARCHY_H_
#define TUTTI_IMPLEMENTATIONS_HIERARCHY_H_

#include <cstdint>
#include <vector>

#include "framework/collective_type.h"
#include "framework/group_layout.h"
#include "framework/implementation_traits.h"

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

// A collective that is part of another one: how it is priced, and on how many
// bytes it works (as CostQuery::bytes).
struct PartPrice {
  double (*seconds)(const CostQuery& query);
  CollectiveType type;
  int64_t bytes;
};

// Seconds for such a part among the devices of each task, of the largest one
// where they differ.
double SecondsInTask(const CostQuery& whole, const PartPrice& part);

// Seconds for such a part among tasks, done at the same time by `num_devices`
// devices of each, which share the way out.
double SecondsAcrossTasks(const CostQuery& whole, int num_devices,
                          const PartPrice& part);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_HIERARCHY_H_
