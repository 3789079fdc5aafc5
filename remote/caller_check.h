#ifndef TUTTI_REMOTE_CALLER_CHECK_H_
#define TUTTI_REMOTE_CALLER_CHECK_H_

#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "tutti/cluster_runtime.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// Checks a request of another task for bytes: a member of this task must send
// them to a member of the caller. The caller must have the incarnation that the
// group has. Errors: INVALID_ARGUMENT if the ranks are not in the group, or the
// sender not in this task; PERMISSION_DENIED if the receiver is another task's;
// FAILED_PRECONDITION if the caller has restarted since.
absl::Status CheckRecvRequest(const ClusterSpec& cluster,
                              const CollGroupParams& group,
                              const ControlCaller& caller, const BufKey& key);

// Checks whether another task may report a failed execution of the group.
// Errors: PERMISSION_DENIED if it has no member in the group.
absl::Status CheckIsInGroup(const ClusterSpec& cluster,
                            const CollGroupParams& group,
                            const ControlCaller& caller);

}  // namespace tutti

#endif  // TUTTI_REMOTE_CALLER_CHECK_H_
