#ifndef TUTTI_FRAMEWORK_COORDINATOR_COORDINATOR_SETTINGS_H_
#define TUTTI_FRAMEWORK_COORDINATOR_COORDINATOR_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tutti {

// A tensor that some ranks have asked for, and others have not.
struct StalledTensor {
  std::string name;
  std::vector<int> present;  // Ranks, in order.
  std::vector<int> missing;
  absl::Duration waited;  // Since the first rank asked.

  std::string ToString() const;
};

// What to say of them, the oldest of which comes first: a line for all of which
// the same ranks are missing.
std::vector<std::string> LinesOf(absl::Span<const StalledTensor> tensors);

// How named tensors are coordinated. Those of rank zero count.
struct CoordinatorSettings {
  // Requests for reductions that are ready together, of one dtype and one
  // merge op, run as one collective over at most so many bytes. 0: each alone.
  int64_t fusion_bytes = int64_t{64} << 20;

  // After so long a tensor that not all ranks have asked for is reported, once;
  // those that come due within a sixteenth of it after a report, together.
  absl::Duration stall_report_after = absl::Seconds(60);

  // After so long it ends with DEADLINE_EXCEEDED on the ranks that have asked.
  absl::Duration stall_deadline = absl::InfiniteDuration();

  // Gets the reports, on rank zero, with no lock held; must not block. Null:
  // LinesOf() those that come together are written to standard error.
  std::function<void(const StalledTensor& tensor)> stalled;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COORDINATOR_COORDINATOR_SETTINGS_H_
