#ifndef TUTTI_REMOTE_GRPC_CONNECTION_LISTEN_ADDRESS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_LISTEN_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

// Addresses at which a task listens.
struct ListenAddresses {
  std::vector<std::string> endpoints;  // "127.0.0.1:7000", "[::1]:7000".
  bool is_loopback = false;  // All are loopback: no other machine can connect.
};

// Resolves `host` to addresses of this machine. Errors: INVALID_ARGUMENT if it
// has none, or is unknown.
absl::StatusOr<ListenAddresses> ResolveListenAddresses(const std::string& host,
                                                       const std::string& port);

// Returns where these descriptors listen, Unix sockets left out. Errors:
// INVALID_ARGUMENT naming the descriptor that is no listening socket.
absl::StatusOr<ListenAddresses> AddressesOf(absl::Span<const int> listeners);

// Opens sockets that listen at `endpoints`, which are numeric. Port 0 means a
// free port. "[::]:7000"
// means all addresses, of IPv4 too, or of IPv4 alone where there is no IPv6.
// Leaves out endpoints of a kind that this machine does not have, if there are
// others. Errors: UNAVAILABLE, saying why, if listening at one of them fails.
absl::StatusOr<std::vector<FileDescriptor>> ListenAt(
    const std::vector<std::string>& endpoints);

// Parts of an address: "[::1]:7000" is "::1" and "7000".
struct HostAndPort {
  std::string host;
  std::string port;
};
HostAndPort SplitAddress(absl::string_view address);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_LISTEN_ADDRESS_H_
