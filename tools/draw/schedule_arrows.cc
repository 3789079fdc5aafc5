#include "tools/draw/schedule_arrows.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

// Leftmost column that the arrow touches.
int LeftOf(const Arrow& arrow) { return std::min(arrow.from, arrow.to); }
int RightOf(const Arrow& arrow) { return std::max(arrow.from, arrow.to); }

std::vector<Arrow> Join(const GroupPlan& plan, absl::Span<const int> depths) {
  std::map<std::tuple<int, int, int>, Arrow> arrows;
  for (int step = 0; step < plan.num_steps(); ++step) {
    if (plan.step(step).kind != StepKind::kSend) continue;
    const int from = plan.rank_of(step);
    const int to = plan.step(step).peer;
    Arrow& arrow = arrows[{depths[step], from, to}];
    arrow.depth = depths[step];
    arrow.from = from;
    arrow.to = to;
    arrow.sends.push_back(step);
  }
  std::vector<Arrow> result;
  for (auto& [key, arrow] : arrows) result.push_back(std::move(arrow));
  return result;
}

// First line that is free from `left` on; marks it as taken up to `right`. If
// all arrows go from left to right, this needs the fewest lines.
int TakeLine(int left, int right, std::vector<int>* taken) {
  const auto line = std::find_if(taken->begin(), taken->end(),
                                 [left](int end) { return end <= left; });
  const int index = static_cast<int>(line - taken->begin());
  if (line == taken->end()) taken->push_back(0);
  (*taken)[index] = right;
  return index;
}

}  // namespace

std::vector<Arrow> ArrowsOf(const GroupPlan& plan,
                            absl::Span<const int> depths) {
  std::vector<Arrow> arrows = Join(plan, depths);
  const auto place = [](const Arrow& arrow) {
    return std::make_tuple(arrow.depth, LeftOf(arrow), RightOf(arrow),
                           arrow.from);
  };
  std::sort(arrows.begin(), arrows.end(), [&](const Arrow& a, const Arrow& b) {
    return place(a) < place(b);
  });
  int depth = 0;
  std::vector<int> taken;  // Rightmost taken column of each line.
  for (Arrow& arrow : arrows) {
    if (std::exchange(depth, arrow.depth) != arrow.depth) taken.clear();
    arrow.line = TakeLine(LeftOf(arrow), RightOf(arrow), &taken);
  }
  std::stable_sort(
      arrows.begin(), arrows.end(), [](const Arrow& a, const Arrow& b) {
        return std::tie(a.depth, a.line) < std::tie(b.depth, b.line);
      });
  return arrows;
}

std::string ChunksOf(const GroupPlan& plan, const Arrow& arrow) {
  std::set<int> chunks;
  for (int send : arrow.sends) chunks.insert(plan.step(send).left.chunk);
  std::vector<std::string> ranges;
  for (auto first = chunks.begin(); first != chunks.end();) {
    auto last = first;
    while (std::next(last) != chunks.end() && *std::next(last) == *last + 1) {
      ++last;
    }
    ranges.push_back(first == last ? absl::StrCat(*first)
                                   : absl::StrCat(*first, "-", *last));
    first = std::next(last);
  }
  return absl::StrJoin(ranges, ",");
}

}  // namespace tutti
