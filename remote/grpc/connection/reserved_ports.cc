#include "remote/grpc/connection/reserved_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace tutti {

namespace {

// Binds a new socket to a free port; returns 0 on failure. Linux allows several
// sockets with SO_REUSEADDR on one port if at most one of them listens. It
// never chooses such a port by itself for another socket.
int BindToFreePort(int fd) {
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (bind(fd, plain, size) != 0) return 0;
  if (getsockname(fd, plain, &size) != 0) return 0;
  return ntohs(address.sin_port);
}

}  // namespace

ReservedPorts::ReservedPorts(int count) {
  for (int i = 0; i < count; ++i) {
    sockets_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ports_.push_back(BindToFreePort(sockets_.back().get()));
  }
}

}  // namespace tutti
