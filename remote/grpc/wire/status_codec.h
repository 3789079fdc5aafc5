#ifndef TUTTI_REMOTE_GRPC_WIRE_STATUS_CODEC_H_
#define TUTTI_REMOTE_GRPC_WIRE_STATUS_CODEC_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace tutti {

// Convert code and message. A message too long for the wire is cut; gRPC writes
// some bytes as three.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Endings of ConnectionError() texts: no process took the connection; the
// connection was taken and closed; the process that took it is no task.
inline constexpr absl::string_view kRefused = "connection refused";
inline constexpr absl::string_view kClosed = "connection closed";
inline constexpr absl::string_view kNoTask = "what answers there is no task";

// Returns an error for a status made by gRPC, not by the other side. It names
// `peer`, such as "task 3 (host:7000)", and says in plain words what happened.
// UNAVAILABLE if the peer could not be reached, went away or was cut off.
// FAILED_PRECONDITION, UNAUTHENTICATED or PERMISSION_DENIED if TLS failed:
// another attempt does not help.
absl::Status ConnectionError(absl::string_view peer,
                             const grpc::Status& status);

// Returns UNAVAILABLE, for a connection that the peer has closed.
absl::Status ConnectionClosed(absl::string_view peer);

// Returns at most the first `size` bytes, without cutting a character.
std::string Cut(absl::string_view text, size_t size);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_WIRE_STATUS_CODEC_H_
