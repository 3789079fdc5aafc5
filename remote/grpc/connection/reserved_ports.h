#ifndef TUTTI_REMOTE_GRPC_CONNECTION_RESERVED_PORTS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_RESERVED_PORTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

// Reserves TCP ports of 127.0.0.1 for tests, all different. The system gives
// them to no other program as long as this object lives.
//
// A server that names such a port can listen there with SO_REUSEADDR, again and
// again, one listener at a time. Without a listener, connections are refused.
class ReservedPorts {
 public:
  // Errors: those of the system.
  static absl::StatusOr<ReservedPorts> Create(int count);

  const std::vector<int>& get() const { return ports_; }

 private:
  ReservedPorts() = default;

  std::vector<FileDescriptor> sockets_;  // Bound, and not listening.
  std::vector<int> ports_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_RESERVED_PORTS_H_
