#ifndef TUTTI_FRAMEWORK_BASE_PEER_STATUS_H_
#define TUTTI_FRAMEWORK_BASE_PEER_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Returns a status that another process sent. Control characters, with which
// its message could forge lines of a log, are written as "\x0a".
absl::Status PeerStatus(absl::StatusCode code, absl::string_view message);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_PEER_STATUS_H_
