#ifndef TUTTI_REMOTE_GRPC_CONNECTION_RESERVED_PORTS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_RESERVED_PORTS_H_

#include <vector>

#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

// TCP ports of 127.0.0.1 that no other program is given as long as this object
// lives, each another one. For tests.
//
// Whoever asks for one by its number can listen there with SO_REUSEADDR, again
// and again, one at a time. While nobody does, connections are refused.
class ReservedPorts {
 public:
  explicit ReservedPorts(int count);

  // 0 where the system gave none.
  const std::vector<int>& get() const { return ports_; }

 private:
  std::vector<FileDescriptor> sockets_;  // Bound, and not listening.
  std::vector<int> ports_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_RESERVED_PORTS_H_
