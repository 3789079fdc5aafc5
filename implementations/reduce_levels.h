#ifndef TUTTI_IMPLEMENTATIONS_REDUCE_LEVELS_H_
#define TUTTI_IMPLEMENTATIONS_REDUCE_LEVELS_H_

#include "absl/strings/string_view.h"

namespace tutti {

// Parts of an all-reduce on two levels, by names of the global registry:
// schedules of one level that fit (CheckFitsAsPart()).
struct ReduceLevels {
  absl::string_view inside;   // Reduce-scatters, reduces or all-reduces.
  absl::string_view between;  // All-reduces.
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_REDUCE_LEVELS_H_
