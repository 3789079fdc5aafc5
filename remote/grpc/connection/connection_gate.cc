#include "remote/grpc/connection/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/same_host_socket.h"

namespace tutti {
namespace {

// First id of a connection in epoll events. Listeners and the wake-up use their
// file descriptors, which are smaller.
constexpr uint64_t kFirstConnection = uint64_t{1} << 32;

// Returns true for errors that keep a connection waiting at its listener.
bool IsShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS ||
         error == ENOMEM;
}

// Events of a connection that gRPC reads.
constexpr uint32_t kEndAlone = EPOLLRDHUP | EPOLLET;

bool Watch(int events, int fd, uint32_t what, uint64_t id,
           int operation = EPOLL_CTL_ADD) {
  epoll_event event = {};
  event.events = what;
  event.data.u64 = id;
  return epoll_ctl(events, operation, fd, &event) == 0;
}

FileDescriptor Duplicate(int fd) {
  return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

// Prepares a connection; returns false for a Unix socket of another user's
// process. TCP must pass on written bytes at once, as Unix sockets do anyway.
bool MakeFit(int fd) {
  int family = 0;
  socklen_t size = sizeof(family);
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) return false;
  if (family == AF_UNIX) return ProcessAt(fd).ok();
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return true;
}

// Begin of gRPC's name for a peer at a Unix socket of an abstract address.
constexpr absl::string_view kUnix = "unix-abstract:";

// Returns the host in a peer's name: all but its port. Unix sockets share one.
std::string HostOf(absl::string_view peer) {
  if (IsOnSameHost(peer)) return std::string(kUnix);
  return std::string(peer.substr(0, peer.rfind(':')));
}

std::vector<FileDescriptor> TakeOver(const std::vector<int>& listeners) {
  std::vector<FileDescriptor> taken;
  for (const int listener : listeners) {
    fcntl(listener, F_SETFD, FD_CLOEXEC);
    fcntl(listener, F_SETFL, O_NONBLOCK);
    taken.emplace_back(listener);
  }
  return taken;
}

absl::StatusOr<std::vector<FileDescriptor>> OpenListeners(
    const ConnectionGate::Options& options) {
  if (!options.listeners.empty()) return TakeOver(options.listeners);
  ASSIGN_OR_RETURN(auto listeners, ListenAt(options.endpoints));
  if (options.same_host_address.empty()) return listeners;
  FileDescriptor listener = ListenOnSameHost(options.same_host_address);
  if (listener.is_set()) listeners.push_back(std::move(listener));
  return listeners;
}

// Returns the name of an abstract address, which begins with NUL.
std::string UnixName(const sockaddr_un& address, size_t size) {
  constexpr size_t kBegin = offsetof(sockaddr_un, sun_path) + 1;
  if (size <= kBegin || address.sun_path[0] != '\0') return "";
  return absl::StrCat(kUnix,
                      absl::string_view(address.sun_path + 1, size - kBegin));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(
    Options options) {
  ASSIGN_OR_RETURN(auto listeners, OpenListeners(options));
  FileDescriptor events(epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool good = events.get() >= 0 && wake.get() >= 0 &&
              Watch(events.get(), wake.get(), EPOLLIN, wake.get());
  for (const FileDescriptor& listener : listeners) {
    good = good && Watch(events.get(), listener.get(), EPOLLIN, listener.get());
  }
  if (!good) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot wait for connections at ",
                            absl::StrJoin(options.endpoints, ", ")));
  }
  return std::unique_ptr<ConnectionGate>(
      new ConnectionGate(std::move(options), std::move(listeners),
                         std::move(events), std::move(wake)));
}

ConnectionGate::ConnectionGate(Options options,
                               std::vector<FileDescriptor> listeners,
                               FileDescriptor events, FileDescriptor wake)
    : options_(std::move(options)),
      events_(std::move(events)),
      wake_(std::move(wake)),
      listeners_(std::move(listeners)),
      last_id_(kFirstConnection),
      self_(std::make_shared<Self>()) {
  MutexLock lock(&self_->mu);
  self_->gate = this;
}

ConnectionGate::~ConnectionGate() { Close(); }

void ConnectionGate::Start(OnConnection on_connection) {
  on_connection_ = std::move(on_connection);
  thread_ = std::thread([this] { Run(); });
}

void ConnectionGate::Run() {
  while (true) {
    epoll_event event = {};
    const int count = epoll_wait(events_.get(), &event, 1, /*timeout=*/-1);
    if (count < 0 && errno != EINTR) return;
    if (count <= 0) continue;
    const uint64_t id = event.data.u64;
    if (id == static_cast<uint64_t>(wake_.get())) return;
    if (id >= kFirstConnection) {
      PassOn(Handle(id));
    } else {
      Accept(static_cast<int>(id));
    }
  }
}

void ConnectionGate::Accept(int listener) {
  FileDescriptor fd(
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.get() < 0 && IsShortage(errno)) return Rest(listener);
  if (fd.get() < 0 || !MakeFit(fd.get())) return;
  PassOn(Admit(listener, std::move(fd)));
}

void ConnectionGate::PassOn(Accepted accepted) {
  if (!accepted.fd.is_set()) return;
  on_connection_(accepted.listener, accepted.fd.Release());
}

// Stops watching the listener for a while, because this process has no
// descriptor to accept with: epoll would report the connection again and again.
void ConnectionGate::Rest(int listener) {
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener, nullptr);
  options_.clock->CallAt(options_.clock->Now() + DefaultTime("accept again"),
                         [self = self_, listener] {
                           MutexLock lock(&self->mu);
                           if (self->gate == nullptr) return;
                           self->gate->AcceptAgain(listener);
                         });
}

void ConnectionGate::AcceptAgain(int listener) {
  if (!Watch(events_.get(), listener, EPOLLIN, listener)) Rest(listener);
}

ConnectionGate::Accepted ConnectionGate::Admit(int listener,
                                               FileDescriptor fd) {
  Connection connection{.listener = listener, .peer = PeerNameOf(fd.get())};
  if (connection.peer.empty()) return {};
  uint32_t events = EPOLLIN;
  Accepted accepted{.listener = listener};
  if (options_.party) {
    connection.proof = Proof::OfCallee(*options_.party, *options_.random);
  } else {
    events = kEndAlone;
    accepted.fd = Duplicate(fd.get());
    if (!accepted.fd.is_set()) return {};
  }
  connection.fd = std::move(fd);
  const std::string host = HostOf(connection.peer);
  MutexLock lock(&mu_);
  if (is_closed_) return {};
  MakeRoom(host);
  const uint64_t id = ++last_id_;
  if (!Watch(events_.get(), connection.fd.get(), events, id)) return {};
  connection.alarm = options_.clock->CallAt(
      options_.clock->Now() + options_.unknown_limit, [self = self_, id] {
        MutexLock gate_lock(&self->mu);
        if (self->gate != nullptr) self->gate->DropIfUnknown(id);
      });
  unknown_.emplace(id, host);
  ids_[connection.peer] = id;
  connections_.emplace(id, std::move(connection));
  return accepted;
}

void ConnectionGate::MakeRoom(absl::string_view host) {
  const auto is_of_host = [host](const auto& entry) {
    return entry.second == host;
  };
  const int max_of_host = std::max(1, options_.max_unknown / 2);
  if (absl::c_count_if(unknown_, is_of_host) >= max_of_host) {
    Drop(absl::c_find_if(unknown_, is_of_host)->first);
  }
  if (static_cast<int>(unknown_.size()) >= options_.max_unknown) {
    Drop(unknown_.begin()->first);
  }
}

ConnectionGate::Accepted ConnectionGate::Handle(uint64_t id) {
  MutexLock lock(&mu_);
  const auto it = connections_.find(id);
  if (it == connections_.end()) return {};
  Connection& connection = it->second;
  Accepted accepted{.listener = connection.listener};
  if (connection.proof) {
    const auto is_done = Continue(*connection.proof, connection.fd.get());
    if (is_done.ok() && !*is_done) return {};
    if (is_done.ok()) accepted.fd = Duplicate(connection.fd.get());
  }
  if (accepted.fd.is_set() &&
      Watch(events_.get(), connection.fd.get(), kEndAlone, id, EPOLL_CTL_MOD)) {
    connection.proof.reset();
    MakeKnown(id);
    return accepted;
  }
  Drop(id);
  return {};
}

void ConnectionGate::MakeKnown(uint64_t id) {
  if (unknown_.erase(id) > 0) {
    options_.clock->Cancel(connections_.at(id).alarm);
  }
}

// Shuts the connection down, because gRPC may hold a duplicate.
void ConnectionGate::Drop(uint64_t id) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  MakeKnown(id);
  const auto named = ids_.find(it->second.peer);
  if (named != ids_.end() && named->second == id) ids_.erase(named);
  shutdown(it->second.fd.get(), SHUT_RDWR);
  connections_.erase(it);
}

void ConnectionGate::DropIfUnknown(uint64_t id) {
  MutexLock lock(&mu_);
  if (unknown_.contains(id)) Drop(id);
}

void ConnectionGate::Vouch(const std::string& peer) {
  MutexLock lock(&mu_);
  const auto named = ids_.find(PlainPeerName(peer));
  if (named != ids_.end()) MakeKnown(named->second);
}

void ConnectionGate::Break(const std::string& peer) {
  MutexLock lock(&mu_);
  const auto named = ids_.find(PlainPeerName(peer));
  if (named != ids_.end()) Drop(named->second);
}

void ConnectionGate::Close() {
  {
    MutexLock gate_lock(&self_->mu);
    self_->gate = nullptr;
  }
  {
    MutexLock lock(&mu_);
    if (is_closed_) return;
    is_closed_ = true;
  }
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();

  MutexLock lock(&mu_);
  listeners_.clear();
  for (auto& [id, connection] : connections_) {
    options_.clock->Cancel(connection.alarm);
    shutdown(connection.fd.get(), SHUT_RDWR);
  }
  connections_.clear();
  ids_.clear();
  unknown_.clear();
}

size_t ConnectionGate::num_unknown() const {
  MutexLock lock(&mu_);
  return unknown_.size();
}

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

bool IsOnSameHost(absl::string_view peer) {
  return absl::StartsWith(peer, kUnix);
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
