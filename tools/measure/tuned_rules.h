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

// What was measured of one collective on one layout. Twice, so that a choice is
// not judged by the noise that it was made from.
struct TunedPoint {
  CollectiveType type = CollectiveType::kAllReduce;
  GroupLayout layout = GroupLayout::Uniform(1, 1);
  bool one_process = true;  // All tasks of the layout; else each is one.
  int64_t bytes = 0;        // Of the larger of one rank's buffers.
  TimesByAlgorithm to_choose;
  TimesByAlgorithm to_judge;  // Of the same algorithms.
};

// What takes at most so much longer is as fast: below it, differences are
// mostly noise.
inline constexpr double kAsFast = 1.05;

// How near a choice has to be to the best for the score.
inline constexpr double kNearBest = 1.10;

// How much longer the named algorithm takes than the fastest: 1 is none. None
// of those that were measured: infinity. REQUIRES: times.
double RatioToBest(const TimesByAlgorithm& times, absl::string_view name);

// What chooses by `to_choose`: as few rules as keep each point within 5 % of
// its best, for points that follow each other with the same collective, layout
// and processes and growing sizes. Between the sizes of two rules the border is
// their geometric mean; the smallest size stands for all below and the largest
// for all above. Pure.
SelectionRules RulesFrom(const std::vector<TunedPoint>& points);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_TUNED_RULES_H_
