#include "tools/launch/own_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

bool IsAddressOfAnotherMachine(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(
      found, &freeaddrinfo);
  const FileDescriptor fd(
      socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, /*protocol=*/0));
  return fd.is_set() &&
         bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0 &&
         errno == EADDRNOTAVAIL;
}

}  // namespace tutti
