#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHY_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "implementations/parts/cost.h"
#include "schedule/composition.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Returns true if all tasks have the same number of devices.
bool IsEven(const GroupLayout& layout);

// Returns the layout of the level between tasks: one device of each task.
GroupLayout FirstsOf(int num_tasks);

// The tasks of a group, seen from one rank. Immutable.
class Hierarchy {
 public:
  // The layout outlives this. REQUIRES: 0 <= rank < layout.size().
  Hierarchy(const GroupLayout& layout, int rank);

  int num_tasks() const { return layout_.num_tasks(); }
  int task() const { return layout_.task_of(rank_); }

  // Ranks of this rank's task, and the index of this rank among them.
  const std::vector<int>& devices() const { return layout_.tasks()[task()]; }
  int num_devices() const { return static_cast<int>(devices().size()); }
  int device() const { return device_; }

  // Returns the ranks with index `device` in their tasks, by task. REQUIRES:
  // every task has such a rank.
  std::vector<int> Column(int device) const;

 private:
  const GroupLayout& layout_;
  const int rank_;
  const int device_;
};

using PlanFunction = Schedule (*)(const PlanRequest& request);

// Offsets with which a composition plans a part that gives none.
inline constexpr int kOneRing[] = {0};

// Returns the number of chunks of a part. Returns 1 if the plan has fewer than
// one chunk, and kMaxChunks + 1 if it has more than kMaxChunks. Both are
// problems of the whole.
int NumChunksOfPart(PlanFunction plan, const PlanRequest& request);

// Returns the reason why a collective cannot have `num_chunks` chunks, or "".
std::string ProblemOfChunks(int64_t num_chunks);

// Plans one rank of a collective. Each part is among the devices of a task, or
// among devices of different tasks. All ranks add the same parts in the same
// order (Composition).
class HierarchicalPlanner {
 public:
  struct Part {
    PlanFunction plan;
    CollectiveType type;
    int root = 0;      // Used if HasRoot(type).
    int num_tags = 0;  // Tags: as in Composition.
    int first_tag = 0;
    int tag_stride = 1;
    std::vector<int> chunks;  // Chunks of the whole.
    bool finishes = false;
    bool ends_at_once = false;

    // Subdivisions of the part's plan; outlive the planner. Empty: one ring.
    absl::Span<const int> subdiv_offsets;

    // Ranks of the part; outlive the planner.
    absl::Span<const int> rank_list;
  };

  // `request` outlives this planner.
  HierarchicalPlanner(const PlanRequest& request, int num_chunks);

  const Hierarchy& hierarchy() const { return hierarchy_; }

  // Adds a part among the devices of this rank's task.
  void AddInTask(Part part);

  // Adds a part among the ranks with index `device` in their tasks. Other ranks
  // take no part.
  void AddAcrossTasks(int device, Part part);

  // Adds a placeholder for a part in which no rank of this task takes part.
  void AddNothing(int num_tags) { whole_.Add({.num_tags = num_tags}); }

  // Returns the schedule. Call once, last.
  Schedule Build() { return whole_.Build(); }

 private:
  void Add(const GroupLayout& layout, int rank, std::vector<int> ranks,
           Part part);

  const PlanRequest& request_;
  const Hierarchy hierarchy_;
  Composition whole_;
};

// Returns the traffic of a part of a collective on its layout.
using PartTraffic = Traffic (*)(const CostQuery& query);

// Returns the part's traffic among the devices of each task; of the largest
// task if they differ.
Traffic TrafficInTask(const CostQuery& whole, PartTraffic part,
                      CollectiveType type);

// Returns the part's traffic among tasks, if `num_devices` devices of each task
// do it at the same time.
Traffic TrafficAcrossTasks(const CostQuery& whole, int num_devices,
                           PartTraffic part, CollectiveType type);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHY_H_
