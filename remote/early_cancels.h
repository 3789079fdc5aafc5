#ifndef TUTTI_REMOTE_EARLY_CANCELS_H_
#define TUTTI_REMOTE_EARLY_CANCELS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/control/control_channel.h"
#include "tutti/collective.h"
#include "tutti/peer_access.h"

namespace tutti {

// Failed executions that other tasks reported before their groups were known
// here. Not thread-safe.
class EarlyCancels {
 public:
  struct EarlyCancel {
    ControlCaller caller;
    ExecKey exec;
    absl::Status reason;
  };

  // Keeps each report for `lifetime`, and up to `max_kept` at a time.
  EarlyCancels(size_t max_kept, absl::Duration lifetime)
      : max_kept_(max_kept), lifetime_(lifetime) {}

  // Returns false if `max_kept` reports are already kept.
  bool Add(EarlyCancel cancel, absl::Time now);

  // Returns the reports in order of arrival.
  std::vector<EarlyCancel> OfGroup(GroupKey group) const;

  // Removes the caller's report of that execution.
  void Remove(const EarlyCancel& cancel);
  void RemoveStep(int64_t step_id);

  size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    EarlyCancel cancel;
    absl::Time came_at;
  };

  const size_t max_kept_;
  const absl::Duration lifetime_;
  std::deque<Kept> kept_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_EARLY_CANCELS_H_
