#ifndef TUTTI_SCHEDULE_STEP_ORDER_H_
#define TUTTI_SCHEDULE_STEP_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedule/group_plan.h"

namespace tutti {

// Which steps are over before which others begin, however the ranks are timed.
//
// Within a rank, lanes and `after` order steps. Between ranks only transfers
// do: both halves have started before bytes move, and each half completes after
// that. A transfer of another size class does not count, because empty
// transfers are skipped and so order nothing.
//
// Within a rank the answer is looked up in a vector clock over the rank's own
// lanes: memory is steps x lanes per rank. Only where that does not tell, it is
// searched for backwards through other ranks, along steps of one size class.
// Trees never need that, so 65,536 ranks are no problem; a ring all-reduce
// needs it for every chunk and rank, which costs the cube of the number of
// ranks.
//
// Not thread-safe.
class StepOrder {
 public:
  // `completion_order` as in SymbolicRun. The plan must outlive this.
  StepOrder(const GroupPlan& plan, absl::Span<const int> completion_order);

  // True if all that `first` does to memory is surely over before `second`
  // begins to touch any. What a send lends is free again when either half of
  // the transfer is complete; a receive writes only once the send has started.
  // REQUIRES: the steps are of one size class, and `first` is before `second`
  // in the completion order.
  bool IsBefore(int first, int second);

  // A rank that may not have begun when all steps of `rank` are complete; -1 if
  // there is none. REQUIRES: all steps are of one size class.
  int RankNotAwaitedBy(int rank);

  // The steps of one size class on one rank, in increasing order.
  int num_groups() const { return static_cast<int>(groups_.size()); }
  absl::Span<const int> group(int group) const {
    return In(by_group_, groups_[group]);
  }

  int completion_index(int step) const { return completion_index_[step]; }

 private:
  struct Range {
    int begin = -1;
    int end = -1;
  };
  static absl::Span<const int> In(const std::vector<int>& values,
                                  const Range& range) {
    return absl::MakeConstSpan(values).subspan(range.begin,
                                               range.end - range.begin);
  }

  void MakeClocks(absl::Span<const int> completion_order);
  int LanesBeside(int step) const;  // Of the same rank, its own included.
  void StartAfter(int step, int earlier);
  void MakeGroups();

  // By the order within the rank alone. REQUIRES: both are of one rank.
  bool EndsBeforeStart(int first, int second) const;

  // Of each lane of the rank, the last step of the same size class that has
  // ended when `step` starts. Worked out when first asked for.
  absl::Span<const int> Predecessors(int step);

  // Goes back from the start of any of the steps `from` and calls `visit` with
  // steps that have surely ended by then, until it returns true. May leave out
  // steps whose lane it visits further on, and all that completed before
  // `oldest`.
  template <typename Visit>
  bool SearchBack(absl::Span<const int> from, int oldest, Visit visit);

  const GroupPlan& plan_;
  std::vector<int> completion_index_;
  // clocks_[clock_of_[s] + l]: how many steps of lane l of its rank are
  // complete when step s starts.
  std::vector<size_t> clock_of_;
  std::vector<int32_t> clocks_;
  std::vector<int> by_group_;
  std::vector<Range> groups_;
  std::vector<int> group_of_;
  // Into predecessors_, by step; begin < 0 before the first use.
  std::vector<Range> predecessors_of_;
  std::vector<int> predecessors_;
  // For SearchBack().
  std::vector<int> seen_in_;
  int search_ = 0;
  std::vector<int> pending_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_STEP_ORDER_H_
