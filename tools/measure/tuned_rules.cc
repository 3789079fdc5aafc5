#include "tools/measure/tuned_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/types/span.h"

namespace tutti {
namespace {

bool HasSameScope(const TunedPoint& a, const TunedPoint& b) {
  return a.type == b.type && a.layout == b.layout &&
         a.one_process == b.one_process;
}

// For algorithms near the best at all points: the product of their ratios to
// the best time.
TimesByAlgorithm NearBestAtAll(absl::Span<const TunedPoint> points) {
  TimesByAlgorithm products;
  for (const auto& [name, seconds] : points.front().to_choose) {
    double product = 1;
    bool is_near = true;
    for (const TunedPoint& point : points) {
      const double ratio = RatioToBest(point.to_choose, name);
      is_near = is_near && ratio <= kAsFast;
      product *= ratio;
    }
    if (is_near) products[name] = product;
  }
  return products;
}

// Number of leading points that one rule can cover: at least one.
size_t LongestRun(absl::Span<const TunedPoint> points) {
  size_t length = 1;
  while (length < points.size() &&
         HasSameScope(points[length], points.front()) &&
         !NearBestAtAll(points.first(length + 1)).empty()) {
    ++length;
  }
  return length;
}

std::string Fastest(const TimesByAlgorithm& times) {
  return std::min_element(
             times.begin(), times.end(),
             [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

int64_t Border(int64_t below, int64_t above) {
  const double mean =
      std::sqrt(static_cast<double>(below) * static_cast<double>(above));
  return std::clamp(static_cast<int64_t>(mean), below, above - 1);
}

}  // namespace

double RatioToBest(const TimesByAlgorithm& times, absl::string_view name) {
  const auto found = times.find(std::string(name));
  if (found == times.end()) return std::numeric_limits<double>::infinity();
  return found->second / times.at(Fastest(times));
}

SelectionRules RulesFrom(const std::vector<TunedPoint>& points) {
  SelectionRules rules;
  absl::Span<const TunedPoint> left = points;
  const TunedPoint* before = nullptr;
  while (!left.empty()) {
    const auto run = left.first(LongestRun(left));
    SelectionRule rule{.type = run.front().type,
                       .layout = run.front().layout.ToString(),
                       .one_process = run.front().one_process,
                       .implementation = Fastest(NearBestAtAll(run))};
    if (before != nullptr && HasSameScope(*before, run.front())) {
      rules.rules.back().max_bytes = Border(before->bytes, run.front().bytes);
      rule.min_bytes = rules.rules.back().max_bytes + 1;
    }
    rules.rules.push_back(std::move(rule));
    before = &run.back();
    left.remove_prefix(run.size());
  }
  return rules;
}

}  // namespace tutti
