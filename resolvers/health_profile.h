#ifndef TUTTI_RESOLVERS_HEALTH_PROFILE_H_
#define TUTTI_RESOLVERS_HEALTH_PROFILE_H_

#include "absl/time/time.h"

namespace tutti {

// How soon a task that does not answer counts as lost. One whose connection
// closes is lost at once, if it has answered before: the first heartbeat, too,
// may be held.
struct HealthProfile {
  absl::Duration silence_limit;

  // How long the other side may keep a heartbeat before it answers. What it may
  // stand still for is the difference.
  absl::Duration hold;

  // A task that stands still for three seconds is not lost, one that is silent
  // for five is.
  static HealthProfile Default() {
    return {absl::Milliseconds(4800), absl::Seconds(1)};
  }

  // One that is silent for a second is lost.
  static HealthProfile Fast() {
    return {absl::Milliseconds(900), absl::Milliseconds(200)};
  }
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_HEALTH_PROFILE_H_
