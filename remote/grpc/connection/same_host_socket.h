#ifndef TUTTI_REMOTE_GRPC_CONNECTION_SAME_HOST_SOCKET_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_SAME_HOST_SOCKET_H_

#include "absl/strings/string_view.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

// Unix sockets between processes of one host that belong to one user. They
// listen at names of Linux's abstract kind (unix(7)): those are of a network
// namespace, as addresses of loopback are, need no file, and are gone with
// whoever listens.

// Listens at the name that belongs to a task's address ("host:7000"). None if
// it cannot: another process does, or the address is too long.
FileDescriptor ListenOnSameHost(absl::string_view address);

// A connection to the process of this user that listens so, or none. Does not
// block. Has a name of its own, so that the other side can tell it from others.
FileDescriptor ConnectOnSameHost(absl::string_view address);

// Whether the other side of a Unix socket belongs to the user of this process.
bool IsOfSameUser(int fd);

// Whether the other side has closed a connection, or will send no more.
bool IsClosedByPeer(int fd);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_SAME_HOST_SOCKET_H_
