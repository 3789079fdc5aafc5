#ifndef TUTTI_REMOTE_GRPC_WIRE_STATUS_CODEC_H_
#define TUTTI_REMOTE_GRPC_WIRE_STATUS_CODEC_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace tutti {

// Code and message as they are; messages that are too long for the wire, where
// gRPC writes some bytes as three, are cut.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// How the texts of ConnectionError() end for a connection that nobody takes,
// and for one that was taken and closed.
inline constexpr absl::string_view kRefused = "connection refused";
inline constexpr absl::string_view kClosed = "connection closed";

// A status that gRPC made, not the other side: names `peer`, such as "task 3
// (host:7000)", and says in plain words what happened. UNAVAILABLE if it could
// not be reached, went away or was cut off; FAILED_PRECONDITION,
// UNAUTHENTICATED or PERMISSION_DENIED if TLS failed: trying again does not
// help.
absl::Status ConnectionError(absl::string_view peer,
                             const grpc::Status& status);

// The first `size` bytes at the most, with no character cut.
std::string Cut(absl::string_view text, size_t size);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_WIRE_STATUS_CODEC_H_
