#ifndef TUTTI_TOOLS_MEASURE_STORE_CALIBRATION_H_
#define TUTTI_TOOLS_MEASURE_STORE_CALIBRATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tutti/environment.h"

namespace tutti {

// Measures whether results within a process are better written to the caches or
// past them (StoreHint).
struct StoreCalibrationOptions {
  // Sum of the sizes of inputs and outputs. Sizes double from `min_bytes` to
  // `max_bytes`.
  int64_t min_bytes = int64_t{1} << 20;
  int64_t max_bytes = int64_t{256} << 20;
  int rounds = 7;
  absl::Duration deadline = absl::InfiniteDuration();  // Per all-reduce.
};

// Median times of an all-reduce between two devices, whose inputs were just
// written through the caches, followed by a read of all results, as a consumer
// would read them.
struct StoreTimes {
  int64_t bytes = 0;  // Inputs and outputs together.
  absl::Duration to_caches;
  absl::Duration past_caches;
};

// Times by size, alternating between the two ways. Blocks. Errors: those of the
// all-reduces; RESOURCE_EXHAUSTED for memory.
absl::StatusOr<std::vector<StoreTimes>> MeasureStores(
    const Environment& environment, const StoreCalibrationOptions& options);

// Smallest measured size from which every size takes at most 5 % longer past
// the caches; 5 % is noise. Without such a size, twice the largest. REQUIRES:
// `times` is not empty and sorted by size. Pure.
int64_t PastCachesFrom(const std::vector<StoreTimes>& times);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_STORE_CALIBRATION_H_
