#ifndef TUTTI_TOOLS_LAUNCH_HELD_PORTS_H_
#define TUTTI_TOOLS_LAUNCH_HELD_PORTS_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/base/unique_fd.h"

namespace tutti {

// Reserves TCP ports of 127.0.0.1 while the object exists.
//
// For servers that start soon and cannot take over an open socket: destroy the
// object just before they start. Until such a server listens, another process
// may take its port, but only by requesting this port, or by requesting any
// port and getting this one of about 14,000. Outgoing connections, which the
// servers make too, never get the port: Linux gives them even numbers, and
// bind() odd numbers.
class HeldPorts {
 public:
  // Errors: those of the system.
  static absl::StatusOr<HeldPorts> Create(int count);

  const std::vector<int>& ports() const { return ports_; }

 private:
  HeldPorts() = default;

  std::vector<UniqueFd> sockets_;
  std::vector<int> ports_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_HELD_PORTS_H_
