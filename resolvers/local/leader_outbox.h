#ifndef TUTTI_RESOLVERS_LOCAL_LEADER_OUTBOX_H_
#define TUTTI_RESOLVERS_LOCAL_LEADER_OUTBOX_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "resolvers/local/waiting_calls.h"
#include "tutti/params.h"

namespace tutti {

// Work that a leader of groups does after it has released its lock.
struct LeaderOutbox {
  // Calls to implementations; each adds its results to the outbox.
  std::vector<absl::AnyInvocable<void(LeaderOutbox*) &&>> jobs;
  std::vector<std::pair<WaitingCallPtr, LeaderAnswer>> answers;
  bool new_groups_changed = false;
  std::vector<std::pair<std::shared_ptr<Cancellation>, absl::Status>>
      ended_groups;
  std::vector<std::pair<std::shared_ptr<const CollGroupParams>, absl::Status>>
      failed_groups;

  // Freed with the outbox, without the lock: their destructors may run foreign
  // code.
  std::vector<std::shared_ptr<const void>> dropped;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_LEADER_OUTBOX_H_
