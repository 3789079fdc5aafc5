#ifndef TUTTI_REMOTE_GRPC_CONNECTION_LOOPBACK_LISTENERS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_LOOPBACK_LISTENERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

// Sockets that listen for a task of this host: at a free port of 127.0.0.1 and,
// if possible, at the Unix name of that address (same_host_socket.h). For
// GrpcTransportOptions::listeners. No other process can take the port from the
// choice on, because the socket that chooses it is the socket that listens.
struct LoopbackListeners {
  // Errors: those of the system.
  static absl::StatusOr<LoopbackListeners> Open();

  std::vector<int> descriptors() const;
  std::vector<int> Release();  // Gives up the sockets.

  std::string address;  // "127.0.0.1:40001".
  std::vector<FileDescriptor> sockets;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_LOOPBACK_LISTENERS_H_
