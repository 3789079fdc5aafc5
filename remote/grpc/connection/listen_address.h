#ifndef TUTTI_REMOTE_GRPC_CONNECTION_LISTEN_ADDRESS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_LISTEN_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

// Where a task listens.
struct ListenAddresses {
  std::vector<std::string> endpoints;  // "127.0.0.1:7000", "[::1]:7000".
  bool is_loopback = false;  // All of them: no other machine can connect.
};

// The addresses of this machine that `host` means. Errors: INVALID_ARGUMENT if
// it means none, or is not known.
absl::StatusOr<ListenAddresses> ResolveListenAddresses(const std::string& host,
                                                       const std::string& port);

// Sockets that listen at `endpoints`, which are numbers. "[::]:7000" is all
// addresses, of IPv4 too, and of IPv4 alone where there is no IPv6. One of a
// kind that this machine does not have is left out if there are others. Errors:
// UNAVAILABLE, saying why, if one of them cannot be listened at.
absl::StatusOr<std::vector<FileDescriptor>> ListenAt(
    const std::vector<std::string>& endpoints);

// "[::1]:7000" is "::1" and "7000".
struct HostAndPort {
  std::string host;
  std::string port;
};
HostAndPort SplitAddress(absl::string_view address);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_LISTEN_ADDRESS_H_
