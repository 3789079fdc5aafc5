#include "remote/grpc/connection/loopback_listeners.h"

#include <utility>

#include "framework/base/status_macros.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/same_host_socket.h"

namespace tutti {

absl::StatusOr<LoopbackListeners> LoopbackListeners::Open() {
  LoopbackListeners listeners;
  ASSIGN_OR_RETURN(listeners.sockets, ListenAt({"127.0.0.1:0"}));
  ASSIGN_OR_RETURN(const auto bound, AddressesOf(listeners.descriptors()));
  listeners.address = bound.endpoints[0];
  FileDescriptor same_host = ListenOnSameHost(listeners.address);
  if (same_host.is_set()) listeners.sockets.push_back(std::move(same_host));
  return listeners;
}

std::vector<int> LoopbackListeners::descriptors() const {
  std::vector<int> descriptors;
  for (const FileDescriptor& socket : sockets) {
    descriptors.push_back(socket.get());
  }
  return descriptors;
}

std::vector<int> LoopbackListeners::Release() {
  const std::vector<int> released = descriptors();
  for (FileDescriptor& socket : sockets) socket.Release();
  return released;
}

}  // namespace tutti
