#include "tools/measure/tune_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "tools/base/exit_status.h"
#include "tools/base/text.h"
#include "tools/request/collective_spec.h"

namespace tutti {
namespace {

constexpr int kFewestRounds = 5;
constexpr int kMostRounds = 25;
constexpr absl::Duration kShort = absl::Milliseconds(500);

absl::StatusOr<GroupLayout> ParseTunedLayout(const std::string& text) {
  auto layout = ParseLayout(text, kMaxGroupSize);
  if (!layout.ok()) return layout;
  if (layout->size() % layout->num_tasks() == 0 &&
      *layout == GroupLayout::Uniform(layout->num_tasks(),
                                      layout->size() / layout->num_tasks())) {
    return layout;
  }
  return UsageError(
      absl::StrCat("--layout ", text, ": wanted as many devices on each task"));
}

// Removes words that repeat an earlier one.
std::vector<std::string> Once(const std::vector<std::string>& words) {
  std::vector<std::string> once;
  for (const std::string& word : words) {
    if (!absl::c_linear_search(once, word)) once.push_back(word);
  }
  return once;
}

RankRange RanksHere(const std::optional<ClusterOptions>& cluster,
                    const GroupLayout& layout) {
  if (!cluster.has_value()) return {.count = layout.size()};
  return {.first = cluster->cluster.this_task * cluster->devices_per_task,
          .count = cluster->devices_per_task};
}

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

int64_t Border(int64_t below, int64_t above) {
  const double mean =
      std::sqrt(static_cast<double>(below) * static_cast<double>(above));
  return std::clamp(static_cast<int64_t>(mean), below, above - 1);
}

}  // namespace

std::string Describe(const TuneQuestion& question) {
  return absl::StrCat(ToString(question.workload.spec), " of ",
                      FormatBytes(BytesOf(question.workload)), " bytes on ",
                      question.layout.ToString());
}

SelectionRequest RequestFor(const TuneQuestion& question,
                            const SelectionPolicy& policy) {
  const CollectiveSpec& spec = question.workload.spec;
  return {.type = spec.type,
          .layout = question.layout,
          .device_type = question.device_type,
          .bytes = BytesOf(question.workload),
          .one_process = question.one_process(),
          .delegate = policy.delegate,
          .dtype = question.workload.dtype,
          .merge_op = spec.merge_op,
          .final_op = spec.final_op,
          .model = policy.model};
}

absl::StatusOr<std::vector<TuneQuestion>> PlanTuning(
    const TuneOptions& options) {
  ASSIGN_OR_RETURN(const auto sizes, SweptSizes(options.sweep));
  std::vector<TuneQuestion> questions;
  std::vector<GroupLayout> layouts;
  for (const std::string& text : options.layouts) {
    ASSIGN_OR_RETURN(const auto layout, ParseTunedLayout(text));
    // Layouts have several spellings.
    if (absl::c_linear_search(layouts, layout)) continue;
    layouts.push_back(layout);
    for (const std::string& collective : Once(options.collectives)) {
      ASSIGN_OR_RETURN(const auto workload,
                       ParseWorkload({.collective = collective},
                                     options.sweep.dtype, layout.size()));
      for (Workload& sized : SweptWorkloads(workload, sizes)) {
        questions.push_back({std::move(sized), layout,
                             RanksHere(options.cluster, layout),
                             options.device_type});
      }
    }
  }
  return questions;
}

bool WantsAnotherRound(const TuneOptions& options, int num_rounds,
                       absl::Duration taken) {
  if (options.rounds.has_value()) return num_rounds < *options.rounds;
  if (num_rounds < kFewestRounds) return true;
  return num_rounds < kMostRounds && taken < kShort;
}

absl::Status CheckMemory(const std::vector<TuneQuestion>& questions) {
  for (const TuneQuestion& question : questions) {
    RETURN_IF_ERROR(PerfBuffers::CheckMemory(question.workload, question.ranks,
                                             BufferOptions()));
  }
  return absl::OkStatus();
}

std::string Fastest(const TimesByAlgorithm& times) {
  return std::min_element(
             times.begin(), times.end(),
             [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

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
