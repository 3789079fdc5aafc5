#include "schedule/step_order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace tutti {

StepOrder::StepOrder(const GroupPlan& plan,
                     absl::Span<const int> completion_order)
    : plan_(plan),
      completion_index_(plan.num_steps()),
      clock_of_(plan.num_steps()),
      by_group_(plan.num_steps()),
      group_of_(plan.num_steps()),
      predecessors_of_(plan.num_steps()),
      seen_in_(plan.num_steps()) {
  for (size_t i = 0; i < completion_order.size(); ++i) {
    completion_index_[completion_order[i]] = static_cast<int>(i);
  }
  MakeClocks(completion_order);
  MakeGroups();
}

void StepOrder::MakeClocks(absl::Span<const int> completion_order) {
  size_t size = 0;
  for (int step = 0; step < plan_.num_steps(); ++step) {
    clock_of_[step] = size;
    size += LanesBeside(step);
  }
  clocks_.resize(size);
  for (int step : completion_order) {
    const bool is_first = step == plan_.lane(plan_.lane_of(step)).first_step;
    if (!is_first) StartAfter(step, step - 1);
    if (plan_.after(step) != -1) StartAfter(step, plan_.after(step));
  }
}

int StepOrder::LanesBeside(int step) const {
  const int rank = plan_.rank_of(step);
  return plan_.first_lane(rank + 1) - plan_.first_lane(rank);
}

void StepOrder::StartAfter(int step, int earlier) {
  int32_t* const clock = &clocks_[clock_of_[step]];
  const int32_t* const other = &clocks_[clock_of_[earlier]];
  for (int lane = 0; lane < LanesBeside(step); ++lane) {
    clock[lane] = std::max(clock[lane], other[lane]);
  }
  const int lane = plan_.lane_of(earlier);
  int32_t& complete = clock[lane - plan_.first_lane(plan_.rank_of(step))];
  complete = std::max(complete, earlier - plan_.lane(lane).first_step + 1);
}

void StepOrder::MakeGroups() {
  std::vector<int64_t> size_class(plan_.num_steps());
  for (int step = 0; step < plan_.num_steps(); ++step) {
    size_class[step] = plan_.size_class(step);
  }
  std::iota(by_group_.begin(), by_group_.end(), 0);
  // Sorts by size class first: a search stays within one class, which then fits
  // the cache.
  const auto key = [&](int step) {
    return std::make_pair(size_class[step], step);
  };
  std::sort(by_group_.begin(), by_group_.end(),
            [&](int a, int b) { return key(a) < key(b); });
  for (int i = 0; i < plan_.num_steps(); ++i) {
    const int step = by_group_[i];
    const bool continues =
        i > 0 && plan_.rank_of(by_group_[i - 1]) == plan_.rank_of(step) &&
        size_class[by_group_[i - 1]] == size_class[step];
    if (!continues) groups_.push_back({.begin = i, .end = i});
    groups_.back().end = i + 1;
    group_of_[step] = num_groups() - 1;
  }
}

bool StepOrder::EndsBeforeStart(int first, int second) const {
  const int lane = plan_.lane_of(first);
  const int index = first - plan_.lane(lane).first_step;
  const int column = lane - plan_.first_lane(plan_.rank_of(first));
  return clocks_[clock_of_[second] + column] > index;
}

absl::Span<const int> StepOrder::Predecessors(int step) {
  Range& range = predecessors_of_[step];
  if (range.begin < 0) {
    range.begin = static_cast<int>(predecessors_.size());
    int last_lane = -1;
    for (int earlier : group(group_of_[step])) {
      if (!EndsBeforeStart(earlier, step)) continue;
      if (plan_.lane_of(earlier) == last_lane) predecessors_.pop_back();
      last_lane = plan_.lane_of(earlier);
      predecessors_.push_back(earlier);
    }
    range.end = static_cast<int>(predecessors_.size());
  }
  return In(predecessors_, range);
}

template <typename Visit>
bool StepOrder::SearchBack(absl::Span<const int> from, int oldest,
                           Visit visit) {
  ++search_;
  pending_.assign(from.begin(), from.end());
  while (!pending_.empty()) {
    const int started = pending_.back();
    pending_.pop_back();
    for (int ended : Predecessors(started)) {
      if (seen_in_[ended] == search_ || completion_index_[ended] < oldest) {
        continue;
      }
      seen_in_[ended] = search_;
      if (visit(ended)) return true;
      pending_.push_back(ended);
      if (plan_.partner(ended) != -1) pending_.push_back(plan_.partner(ended));
    }
  }
  return false;
}

bool StepOrder::IsBefore(int first, int second) {
  if (EndsBeforeStart(first, second)) return true;
  // A visit of a step also covers all earlier steps of its lane.
  const auto reaches = [this](int step, int earlier) {
    return step >= earlier && plan_.lane_of(step) == plan_.lane_of(earlier);
  };
  const bool receives = plan_.step(second).kind == StepKind::kRecv;
  const int from[] = {second, plan_.partner(second)};
  const bool lends = plan_.step(first).kind == StepKind::kSend;
  const int reader = lends ? plan_.partner(first) : first;
  const int oldest =
      std::min(completion_index_[first], completion_index_[reader]);
  return SearchBack(absl::MakeConstSpan(from, receives ? 2 : 1), oldest,
                    [&](int ended) {
                      return reaches(ended, first) || reaches(ended, reader);
                    });
}

int StepOrder::RankNotAwaitedBy(int rank) {
  std::vector<bool> begun(plan_.num_ranks());
  std::vector<int> started;
  const auto mark = [&](int step) {
    begun[plan_.rank_of(step)] = true;
    if (plan_.partner(step) != -1)
      begun[plan_.rank_of(plan_.partner(step))] = true;
    return false;
  };
  begun[rank] = true;
  for (int l = plan_.first_lane(rank); l < plan_.first_lane(rank + 1); ++l) {
    const GroupPlan::LaneInfo& lane = plan_.lane(l);
    if (lane.num_steps == 0) continue;
    const int last = lane.first_step + lane.num_steps - 1;
    mark(last);
    started.push_back(last);
    if (plan_.partner(last) != -1) started.push_back(plan_.partner(last));
  }
  SearchBack(started, /*oldest=*/0, mark);
  const auto missing = std::find(begun.begin(), begun.end(), false);
  return missing == begun.end() ? -1
                                : static_cast<int>(missing - begun.begin());
}

}  // namespace tutti
