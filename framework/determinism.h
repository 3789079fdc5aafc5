#ifndef TUTTI_FRAMEWORK_DETERMINISM_H_
#define TUTTI_FRAMEWORK_DETERMINISM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

// How far the results of an implementation are the same bits on every run,
// whatever the timing. From the most to the least; who wants one class is
// served by those before it too.
enum class Determinism : uint8_t {
  // They depend on the inputs in rank order alone: not on how ranks lie on
  // tasks, who arrives first, or the number of threads. Two implementations may
  // still differ, by where they put the brackets: (a + b) + (c + d).
  kByRankOrder,
  kFixedLayout,   // They also depend on how ranks lie on tasks.
  kNotGuaranteed  // They may differ from run to run.
};

// "by rank order", "fixed layout", "not guaranteed".
absl::string_view Name(Determinism determinism);

// A name, with spaces or underscores. Errors: INVALID_ARGUMENT listing them.
absl::StatusOr<Determinism> ParseDeterminism(absl::string_view text);

// Whether what is offered is at least what is wanted.
inline bool Satisfies(Determinism offered, Determinism wanted) {
  return offered <= wanted;
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DETERMINISM_H_
