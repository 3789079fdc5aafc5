#ifndef TUTTI_RESOLVERS_LEADER_LEADER_REQUEST_H_
#define TUTTI_RESOLVERS_LEADER_LEADER_REQUEST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/leader_requests.h"

namespace tutti {

// Request and its receiver at one moment: the request may be repeated
// meanwhile.
struct LeaderAttempt {
  int number = 0;
  int leader = 0;
  uint64_t ended_generation = 0;
  uint64_t living_generation = 0;
  bool wait_until_reachable = false;
};

// Sends the request to the leader in another task. Thread-safe; `done` runs as
// in ControlChannel::Call(), but not after an error. Errors: those of
// EncodeMemberCall().
absl::Status SendToLeader(const LeaderRequest& question,
                          const LeaderAttempt& attempt, ControlChannel& channel,
                          ControlDone done);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_LEADER_REQUEST_H_
