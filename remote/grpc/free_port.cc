#include "remote/grpc/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tutti {

namespace {

// Of a new socket, bound to it. 0 if there is none.
int BindToFreePort(int fd) {
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

std::vector<int> FreePorts(int num_ports) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < num_ports; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ports.push_back(BindToFreePort(sockets.back()));
  }
  for (const int fd : sockets) close(fd);
  return ports;
}

}  // namespace tutti
