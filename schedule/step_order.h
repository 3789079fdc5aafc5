#ifndef TUTTI_SCHEDULE_STEP_ORDER_H_
#define TUTTI_SCHEDULE_STEP_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedule/group_plan.h"

namespace tutti {

// Answers which steps end before others begin, whatever the timing of the
// ranks.
//
// Within a rank, lanes and `after` order steps. Between ranks only transfers
// do: both halves start before bytes move, and each half completes after that.
// Only transfers with a chunk of the size class count, because transfers
// without elements are skipped and order nothing.
//
// Within a rank, a vector clock over the rank's lanes gives the answer. Its
// memory is steps x lanes per rank. If the clock does not know, a search goes
// backwards through other ranks, along steps of one size class. Trees never
// need the search, and 65,536 ranks are no problem. A ring all-reduce needs it
// for every chunk and rank, which costs the cube of the number of ranks.
//
// Not thread-safe.
class StepOrder {
 public:
  // `completion_order` is as in SymbolicRun. `plan` outlives this object.
  StepOrder(const GroupPlan& plan, absl::Span<const int> completion_order);

  // Returns true if all memory accesses of `first` surely end before `second`
  // begins its own. Bytes of a send are free again when either half of the
  // transfer is complete. A receive writes only after the send has started.
  // REQUIRES: the steps are on one rank and have chunks of the size class, and
  // `first` is before `second` in the completion order.
  bool IsBefore(int first, int second, int64_t size_class);

  // Returns a rank that may not have begun when all steps of `rank` are
  // complete, or -1 if none. REQUIRES: all steps have the size class 0 alone.
  int RankNotAwaitedBy(int rank);

  int completion_index(int step) const { return completion_index_[step]; }

 private:
  struct Range {
    int begin = -1;
    int end = -1;
  };

  // A step in one of its size classes.
  struct Entry {
    int64_t size_class = 0;
    int step = 0;
    int partner = -1;  // Entry of the other half of a transfer.
    Range group;       // Entries of its size class on its rank, by step.

    // In predecessors_; begin < 0 before the first use.
    Range predecessors;
  };

  void MakeClocks(absl::Span<const int> completion_order);
  int LanesBeside(int step) const;  // Lanes of the step's rank.
  void StartAfter(int step, int earlier);
  void MakeEntries();
  int EntryOf(int step, int64_t size_class) const;

  // Compares by the order within the rank alone. REQUIRES: both steps are on
  // one rank.
  bool EndsBeforeStart(int first, int second) const;

  // For each lane of the rank: the entry of its last step of the same size
  // class that has ended when the step of `entry` starts. Computed at the first
  // call.
  absl::Span<const int> Predecessors(int entry);

  // Goes back from the start of the entries `from`. Calls `visit` with steps
  // that have surely ended by then, until `visit` returns true. May skip steps
  // if it visits a later step of their lane. Skips steps that completed before
  // `oldest`.
  template <typename Visit>
  bool SearchBack(absl::Span<const int> from, int oldest, Visit visit);

  const GroupPlan& plan_;
  std::vector<int> completion_index_;
  // clocks_[clock_of_[s] + l]: number of steps of lane l of the same rank that
  // are complete when step s starts.
  std::vector<size_t> clock_of_;
  std::vector<int32_t> clocks_;
  std::vector<Entry> entries_;  // Sorted by size class, then step.
  std::vector<int> predecessors_;
  // State of SearchBack().
  std::vector<int> seen_in_;  // By entry.
  int search_ = 0;
  std::vector<int> pending_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_STEP_ORDER_H_
