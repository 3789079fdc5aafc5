#ifndef TUTTI_FRAMEWORK_BASE_PEER_STATUS_H_
#define TUTTI_FRAMEWORK_BASE_PEER_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Returns the text of another process. Control characters, with which it could
// forge lines of a log, are written as "\x0a".
std::string Printable(absl::string_view text);

// Returns a status that another process sent, with its message Printable().
absl::Status PeerStatus(absl::StatusCode code, absl::string_view message);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_PEER_STATUS_H_
