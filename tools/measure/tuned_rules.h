#ifndef TUTTI_TOOLS_MEASURE_TUNED_RULES_H_
#define TUTTI_TOOLS_MEASURE_TUNED_RULES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// Seconds that each algorithm took, by name.
using TimesByAlgorithm = std::map<std::string, double>;

// Measurements of one collective on one layout. Measured twice, so that noise
// that affects a choice does not affect its score.
struct TunedPoint {
  CollectiveType type = CollectiveType::kAllReduce;
  GroupLayout layout = GroupLayout::Uniform(1, 1);
  bool one_process = true;  // Otherwise each task is a process.
  int64_t bytes = 0;        // The larger of a rank's buffers.
  TimesByAlgorithm to_choose;
  TimesByAlgorithm to_judge;  // Same algorithms.
};

// Ratio up to which two times count as equal: smaller differences are mostly
// noise.
inline constexpr double kAsFast = 1.05;

// Ratio to the best time up to which a choice scores.
inline constexpr double kNearBest = 1.10;

// Ratio of the named algorithm's time to the fastest time; infinity if the
// algorithm was not measured. REQUIRES: `times` is not empty.
double RatioToBest(const TimesByAlgorithm& times, absl::string_view name);

// Rules that choose by `to_choose`: as few rules as keep each point within 5 %
// of its best. A rule covers adjacent points with the same collective, layout
// and processes and growing sizes. The border between two rules is the
// geometric mean of their sizes. The smallest size also covers all smaller
// ones, the largest all larger ones. Pure.
SelectionRules RulesFrom(const std::vector<TunedPoint>& points);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_TUNED_RULES_H_
