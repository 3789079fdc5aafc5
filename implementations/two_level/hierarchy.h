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

// True if all tasks have the same number of devices.
bool IsEven(const GroupLayout& layout);

// Among whom the level between tasks runs: one device of each.
GroupLayout FirstsOf(int num_tasks);

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

using PlanFunction = Schedule (*)(const PlanRequest& request);

// As a composition plans a part where it gives no other offsets.
inline constexpr int kOneRing[] = {0};

// In how many chunks a part is cut: of a plan of less than one, 1, and of more
// than kMaxChunks, one more than that. Both are problems of the whole.
int NumChunksOfPart(PlanFunction plan, const PlanRequest& request);

// Why a collective cannot be cut in so many chunks; empty: it can.
std::string ProblemOfChunks(int64_t num_chunks);

// Plans one rank of a collective whose parts are among the devices of a task,
// or among devices of different tasks. All ranks add the same parts in the same
// order (Composition).
class HierarchicalPlanner {
 public:
  struct Part {
    PlanFunction plan;
    CollectiveType type;
    int root = 0;      // Where HasRoot(type).
    int num_tags = 0;  // As in Composition, the three.
    int first_tag = 0;
    int tag_stride = 1;
    std::vector<int> chunks;  // Of the whole, by chunk of the part.
    bool finishes = false;
    bool ends_at_once = false;

    // Of its plan, which outlive this. None: one ring.
    absl::Span<const int> subdiv_offsets;
  };

  // The request outlives this.
  HierarchicalPlanner(const PlanRequest& request, int num_chunks);

  const Hierarchy& hierarchy() const { return hierarchy_; }

  // Among the devices of the own task.
  void AddInTask(Part part);

  // Among those ranks that are number `device` in their tasks; others take no
  // part.
  void AddAcrossTasks(int device, Part part);

  // Stands for a part that all ranks of the own task leave out.
  void AddNothing(int num_tags) { whole_.Add({.num_tags = num_tags}); }

  // Call once, last.
  Schedule Build() { return whole_.Build(); }

 private:
  void Add(const GroupLayout& layout, int rank, std::vector<int> ranks,
           Part part);

  const PlanRequest& request_;
  const Hierarchy hierarchy_;
  Composition whole_;
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

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHY_H_
