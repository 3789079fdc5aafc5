#ifndef TUTTI_REMOTE_GRPC_CONNECTION_SAME_HOST_SOCKET_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_SAME_HOST_SOCKET_H_

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {

// Unix sockets between processes of one host and one user. They listen at names
// of Linux's abstract kind (unix(7)). Such names belong to a network namespace,
// like loopback addresses. They need no file, and end with their listener.

// Listens at the name of a task's address ("host:7000"). Returns none if that
// fails: another process listens there, or the address is too long.
FileDescriptor ListenOnSameHost(absl::string_view address);

// Connects to the process of this user that listens at the address; returns
// none if there is none. Does not block. Binds a unique name, by which the
// other side can tell the connection from others. Errors: PERMISSION_DENIED if
// a process of another user listens there.
absl::StatusOr<FileDescriptor> ConnectOnSameHost(absl::string_view address);

// Returns the process at the other side of a Unix socket, as the kernel vouches
// for it: the process that connected or listened. Errors: PERMISSION_DENIED if
// it is of another user; UNAVAILABLE if it is unknown.
absl::StatusOr<pid_t> ProcessAt(int fd);

// Returns whether the other side has closed a connection, or will send no more.
bool IsClosedByPeer(int fd);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_SAME_HOST_SOCKET_H_
