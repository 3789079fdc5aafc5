#ifndef TUTTI_REMOTE_CALLER_CHECK_H_
#define TUTTI_REMOTE_CALLER_CHECK_H_

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "tutti/cluster_runtime.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// Whether another task may have what it asks for: the bytes that a member of
// this task sends to one of its own, in the incarnation that the group has.
// Errors: INVALID_ARGUMENT if the ranks are not in the group, or the sender not
// in this task; PERMISSION_DENIED if the receiver is another task's;
// FAILED_PRECONDITION if the caller has restarted since.
absl::Status CheckAsk(const ClusterSpec& cluster, const CollGroupParams& group,
                      const ControlCaller& caller, const BufKey& key);

// Whether another task may say that an execution of the group has failed:
// PERMISSION_DENIED if no member is in it.
absl::Status CheckIsInGroup(const ClusterSpec& cluster,
                            const CollGroupParams& group,
                            const ControlCaller& caller);

}  // namespace tutti

#endif  // TUTTI_REMOTE_CALLER_CHECK_H_
