#include "remote/grpc/connection/peer_name.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace tutti {
namespace {

// Returns the name of an abstract address, which begins with NUL.
std::string UnixName(const sockaddr_un& address, size_t size) {
  constexpr size_t kBegin = offsetof(sockaddr_un, sun_path) + 1;
  if (size <= kBegin || address.sun_path[0] != '\0') return "";
  return absl::StrCat("unix-abstract:",
                      absl::string_view(address.sun_path + 1, size - kBegin));
}

}  // namespace

std::string PeerNameOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "";
  }
  if (address.ss_family == AF_UNIX) {
    return UnixName(reinterpret_cast<const sockaddr_un&>(address), size);
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(in->sin_port));
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address);
  inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
  return PlainPeerName(
      absl::StrCat("ipv6:[", text, "]:", ntohs(in6->sin6_port)));
}

std::string PlainPeerName(const std::string& peer) {
  std::string plain =
      absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  // Drops the scope of a link-local address.
  const size_t scope = plain.find('%');
  const size_t end = plain.find(']');
  if (scope < end && end != std::string::npos) plain.erase(scope, end - scope);
  constexpr absl::string_view kMapped = "ipv6:[::ffff:";
  if (!absl::StartsWith(plain, kMapped) || !absl::StrContains(plain, ".")) {
    return plain;
  }
  return absl::StrCat(
      "ipv4:", absl::StrReplaceAll(plain.substr(kMapped.size()), {{"]", ""}}));
}

}  // namespace tutti
