#ifndef TUTTI_TOOLS_MEASURE_STORE_CALIBRATION_H_
#define TUTTI_TOOLS_MEASURE_STORE_CALIBRATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tutti/environment.h"

namespace tutti {

// Measures how results within a process are best written: to the caches or past
// them (StoreHint).
struct StoreCalibrationOptions {
  // Inputs and outputs in all; sizes double from the one to the other.
  int64_t min_bytes = int64_t{1} << 20;
  int64_t max_bytes = int64_t{256} << 20;
  int rounds = 7;
  absl::Duration deadline = absl::InfiniteDuration();  // Of each all-reduce.
};

// An all-reduce between two devices, whose inputs have just been written
// through the caches, and a look at all of the results, as whoever wants them
// next takes. Medians.
struct StoreTimes {
  int64_t bytes = 0;  // Of inputs and outputs in all.
  absl::Duration to_caches;
  absl::Duration past_caches;
};

// By size, the two ways in turn. Blocks. Errors: those of the all-reduces;
// RESOURCE_EXHAUSTED for memory.
absl::StatusOr<std::vector<StoreTimes>> MeasureStores(
    const Environment& environment, const StoreCalibrationOptions& options);

// The smallest size that was measured from which on, at each, it takes at most
// 5 % longer past the caches, which is noise. If there is none, twice the
// largest. REQUIRES: some times, by size. Pure.
int64_t PastCachesFrom(const std::vector<StoreTimes>& times);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_STORE_CALIBRATION_H_
