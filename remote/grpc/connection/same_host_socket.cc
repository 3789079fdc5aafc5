#include "remote/grpc/connection/same_host_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

struct UnixAddress {
  sockaddr_un address = {};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

// Makes an address of the abstract kind, which begins with NUL and has an
// explicit length.
std::optional<UnixAddress> NameFor(absl::string_view address) {
  const std::string name = absl::StrCat("tutti/", address);
  UnixAddress result;
  if (name.size() + 1 > sizeof(result.address.sun_path)) return std::nullopt;
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

FileDescriptor MakeSocket() {
  return FileDescriptor(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Binds to a unique name, which the system chooses.
bool BindToOwnName(int fd) {
  sockaddr_un any = {};
  any.sun_family = AF_UNIX;
  return bind(fd, reinterpret_cast<const sockaddr*>(&any),
              sizeof(any.sun_family)) == 0;
}

}  // namespace

FileDescriptor ListenOnSameHost(absl::string_view address) {
  const auto name = NameFor(address);
  if (!name) return {};
  FileDescriptor fd = MakeSocket();
  if (bind(fd.get(), name->get(), name->size) != 0) return {};
  if (listen(fd.get(), SOMAXCONN) != 0) return {};
  return fd;
}

absl::StatusOr<FileDescriptor> ConnectOnSameHost(absl::string_view address) {
  const auto name = NameFor(address);
  if (!name) return FileDescriptor();
  FileDescriptor fd = MakeSocket();
  if (!BindToOwnName(fd.get()) ||
      connect(fd.get(), name->get(), name->size) != 0) {
    return FileDescriptor();
  }
  RETURN_IF_ERROR(ProcessAt(fd.get()).status());
  return fd;
}

absl::StatusOr<pid_t> ProcessAt(int fd) {
  ucred other = {};
  socklen_t size = sizeof(other);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0) {
    return absl::UnavailableError("the process at a Unix socket is unknown");
  }
  if (other.uid == geteuid()) return other.pid;
  return absl::PermissionDeniedError(
      absl::StrCat("a process of user ", other.uid, " has its Unix socket, ",
                   "this one is of user ", geteuid()));
}

bool IsClosedByPeer(int fd) {
  pollfd state = {.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, /*timeout=*/0) != 0;
}

}  // namespace tutti
