#include "tools/launch/held_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"

namespace tutti {

absl::StatusOr<HeldPorts> HeldPorts::Create(int count) {
  HeldPorts held;
  for (int i = 0; i < count; ++i) {
    UniqueFd one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    if (!one.is_set() || bind(one.get(), generic, size) != 0 ||
        getsockname(one.get(), generic, &size) != 0) {
      return absl::ErrnoToStatus(errno, "cannot find free ports of 127.0.0.1");
    }
    held.ports_.push_back(ntohs(address.sin_port));
    held.sockets_.push_back(std::move(one));
  }
  return held;
}

}  // namespace tutti
