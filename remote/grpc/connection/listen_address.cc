#include "remote/grpc/connection/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// `flags` are flags of getaddrinfo().
absl::StatusOr<AddressList> Resolve(const std::string& host,
                                    const std::string& port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (error == 0) return AddressList(list, &freeaddrinfo);
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot listen at ", host, ":", port, ": ", gai_strerror(error)));
}

bool IsLoopback(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address.ai_addr);
    return ntohl(in->sin_addr.s_addr) >> 24 == 127;
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
  return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

std::string ToEndpoint(const addrinfo& address) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  getnameinfo(address.ai_addr, address.ai_addrlen, host, sizeof(host), port,
              sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  return address.ai_family == AF_INET6 ? absl::StrCat("[", host, "]:", port)
                                       : absl::StrCat(host, ":", port);
}

bool IsListening(int fd) {
  int is_listening = 0;
  socklen_t size = sizeof(is_listening);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) == 0 &&
         is_listening != 0;
}

// Listening socket, or an errno.
struct ListenResult {
  FileDescriptor fd;
  int error = 0;
};

ListenResult Listen(const addrinfo& address) {
  FileDescriptor fd(socket(address.ai_family,
                           address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                           0));
  if (fd.get() < 0) return {.error = errno};
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address.ai_family == AF_INET6) {  // Some machines default to IPv6 alone.
    const int no = 0;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  if (bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return {.error = errno};
  }
  return {.fd = std::move(fd)};
}

ListenResult ListenAtNumbers(const std::string& host, const std::string& port) {
  const auto list = Resolve(host, port, AI_NUMERICHOST);
  if (!list.ok() || *list == nullptr) return {.error = EINVAL};
  return Listen(**list);
}

bool IsMissing(int error) {
  return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

ListenResult Listen(const std::string& endpoint) {
  const auto [host, port] = SplitAddress(endpoint);
  ListenResult result = ListenAtNumbers(host, port);
  if (host != "::" || !IsMissing(result.error)) return result;
  return ListenAtNumbers("0.0.0.0", port);
}

std::string Describe(int error) {
  if (error == EADDRINUSE) return "address in use";
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace

HostAndPort SplitAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {.host = std::string(host),
          .port = std::string(address.substr(colon + 1))};
}

absl::StatusOr<ListenAddresses> ResolveListenAddresses(
    const std::string& host, const std::string& port) {
  ASSIGN_OR_RETURN(const auto list, Resolve(host, port, /*flags=*/0));
  ListenAddresses found{.is_loopback = true};
  for (const addrinfo* address = list.get(); address != nullptr;
       address = address->ai_next) {
    if (address->ai_family != AF_INET && address->ai_family != AF_INET6) {
      continue;
    }
    found.endpoints.push_back(ToEndpoint(*address));
    found.is_loopback = found.is_loopback && IsLoopback(*address);
  }
  if (!found.endpoints.empty()) return found;
  return absl::InvalidArgumentError(
      absl::StrCat(host, " is no address of this machine"));
}

absl::StatusOr<ListenAddresses> AddressesOf(absl::Span<const int> listeners) {
  ListenAddresses found{.is_loopback = true};
  for (const int listener : listeners) {
    sockaddr_storage storage = {};
    addrinfo address = {.ai_addrlen = sizeof(storage),
                        .ai_addr = reinterpret_cast<sockaddr*>(&storage)};
    if (!IsListening(listener) ||
        getsockname(listener, address.ai_addr, &address.ai_addrlen) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("descriptor ", listener, " is no listening socket"));
    }
    address.ai_family = storage.ss_family;
    if (address.ai_family == AF_UNIX) continue;
    found.endpoints.push_back(ToEndpoint(address));
    found.is_loopback = found.is_loopback && IsLoopback(address);
  }
  return found;
}

absl::StatusOr<std::vector<FileDescriptor>> ListenAt(
    const std::vector<std::string>& endpoints) {
  std::vector<FileDescriptor> listeners;
  absl::Status missing = absl::InvalidArgumentError("nowhere to listen at");
  for (const std::string& endpoint : endpoints) {
    auto [fd, error] = Listen(endpoint);
    if (error == 0) {
      listeners.push_back(std::move(fd));
      continue;
    }
    absl::Status status = absl::UnavailableError(
        absl::StrCat("cannot listen at ", endpoint, ": ", Describe(error)));
    if (!IsMissing(error)) return status;
    missing = std::move(status);
  }
  if (listeners.empty()) return missing;
  return listeners;
}

}  // namespace tutti
