#include "schedule/step_order.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace tutti {

StepOrder::StepOrder(const GroupPlan& plan,
                     absl::Span<const int> completion_order)
    : plan_(plan),
      completion_index_(plan.num_steps()),
      clock_of_(plan.num_steps()) {
  for (size_t i = 0; i < completion_order.size(); ++i) {
    completion_index_[completion_order[i]] = static_cast<int>(i);
  }
  MakeClocks(completion_order);
  MakeEntries();
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

void StepOrder::MakeEntries() {
  for (int step = 0; step < plan_.num_steps(); ++step) {
    for (const int64_t size_class : plan_.size_classes(step)) {
      entries_.push_back({.size_class = size_class, .step = step});
    }
  }
  // Sorts by size class first: a search stays within one class, which then fits
  // the cache.
  std::sort(
      entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
        return std::tie(a.size_class, a.step) < std::tie(b.size_class, b.step);
      });
  const auto num_entries = static_cast<int>(entries_.size());
  seen_in_.resize(entries_.size());
  for (int begin = 0, end = 0; begin < num_entries; begin = end) {
    const Entry& first = entries_[begin];
    while (end < num_entries && entries_[end].size_class == first.size_class &&
           plan_.rank_of(entries_[end].step) == plan_.rank_of(first.step)) {
      ++end;
    }
    for (int i = begin; i < end; ++i) {
      Entry& entry = entries_[i];
      entry.group = {.begin = begin, .end = end};
      const int partner = plan_.partner(entry.step);
      if (partner != -1) entry.partner = EntryOf(partner, entry.size_class);
    }
  }
}

int StepOrder::EntryOf(int step, int64_t size_class) const {
  const auto entry = std::lower_bound(
      entries_.begin(), entries_.end(), std::tie(size_class, step),
      [](const Entry& a, const auto& key) {
        return std::tie(a.size_class, a.step) < key;
      });
  return static_cast<int>(entry - entries_.begin());
}

bool StepOrder::EndsBeforeStart(int first, int second) const {
  const int lane = plan_.lane_of(first);
  const int index = first - plan_.lane(lane).first_step;
  const int column = lane - plan_.first_lane(plan_.rank_of(first));
  return clocks_[clock_of_[second] + column] > index;
}

absl::Span<const int> StepOrder::Predecessors(int entry) {
  Range& range = entries_[entry].predecessors;
  if (range.begin < 0) {
    range.begin = static_cast<int>(predecessors_.size());
    int last_lane = -1;
    const Range& group = entries_[entry].group;
    for (int earlier = group.begin; earlier < group.end; ++earlier) {
      const int step = entries_[earlier].step;
      if (!EndsBeforeStart(step, entries_[entry].step)) continue;
      if (plan_.lane_of(step) == last_lane) predecessors_.pop_back();
      last_lane = plan_.lane_of(step);
      predecessors_.push_back(earlier);
    }
    range.end = static_cast<int>(predecessors_.size());
  }
  return absl::MakeConstSpan(predecessors_)
      .subspan(range.begin, range.end - range.begin);
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
      const Entry& entry = entries_[ended];
      if (seen_in_[ended] == search_ ||
          completion_index_[entry.step] < oldest) {
        continue;
      }
      seen_in_[ended] = search_;
      if (visit(entry.step)) return true;
      pending_.push_back(ended);
      if (entry.partner != -1) pending_.push_back(entry.partner);
    }
  }
  return false;
}

bool StepOrder::IsBefore(int first, int second, int64_t size_class) {
  if (EndsBeforeStart(first, second)) return true;
  // A visit of a step also covers all earlier steps of its lane.
  const auto reaches = [this](int step, int earlier) {
    return step >= earlier && plan_.lane_of(step) == plan_.lane_of(earlier);
  };
  const bool receives = plan_.step(second).kind == StepKind::kRecv;
  const int entry = EntryOf(second, size_class);
  const int from[] = {entry, entries_[entry].partner};
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
    const int entry = EntryOf(last, /*size_class=*/0);
    started.push_back(entry);
    if (entries_[entry].partner != -1) {
      started.push_back(entries_[entry].partner);
    }
  }
  SearchBack(started, /*oldest=*/0, mark);
  const auto missing = std::find(begun.begin(), begun.end(), false);
  return missing == begun.end() ? -1
                                : static_cast<int>(missing - begun.begin());
}

}  // namespace tutti
