#include "remote/grpc/connection/reserved_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"

namespace tutti {

// Linux allows several sockets with SO_REUSEADDR on one port if at most one of
// them listens. It never chooses such a port by itself for another socket.
absl::StatusOr<ReservedPorts> ReservedPorts::Create(int count) {
  ReservedPorts reserved;
  for (int i = 0; i < count; ++i) {
    FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    if (!fd.is_set() ||
        setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) !=
            0 ||
        bind(fd.get(), generic, size) != 0 ||
        getsockname(fd.get(), generic, &size) != 0) {
      return absl::ErrnoToStatus(errno, "cannot find free ports of 127.0.0.1");
    }
    reserved.ports_.push_back(ntohs(address.sin_port));
    reserved.sockets_.push_back(std::move(fd));
  }
  return reserved;
}

}  // namespace tutti
