#ifndef TUTTI_TOOLS_LAUNCH_HELD_PORTS_H_
#define TUTTI_TOOLS_LAUNCH_HELD_PORTS_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/base/unique_fd.h"

namespace tutti {

// TCP ports of 127.0.0.1 that nobody else gets as long as this object lives.
//
// For servers that are about to start and cannot be handed a socket: destroy
// the object just before. From then on until such a server listens, somebody
// else may take its port, but only by asking for that very port, or for any
// port and being given this one of some 14,000: outgoing connections, of which
// the servers themselves make many, do not get it, since Linux gives these the
// other half of its range (even numbers, where bind() gets odd ones).
class HeldPorts {
 public:
  // Errors: what the system says.
  static absl::StatusOr<HeldPorts> Create(int count);

  const std::vector<int>& ports() const { return ports_; }

 private:
  HeldPorts() = default;

  std::vector<UniqueFd> sockets_;
  std::vector<int> ports_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_HELD_PORTS_H_
