#include "remote/grpc/connection/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

bool Watch(int events, int fd, uint32_t what, uint64_t id) {
  epoll_event event = {};
  event.events = what;
  event.data.u64 = id;
  return epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) == 0;
}

// Prepares a connection; returns false for a Unix socket of another user's
// process. TCP must pass on written bytes at once, as Unix sockets do anyway.
bool MakeFit(int fd) {
  int family = 0;
  socklen_t size = sizeof(family);
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) return false;
  if (family == AF_UNIX) return IsOfSameUser(fd);
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return true;
}

// Returns the name of an abstract address, which begins with NUL.
std::string UnixName(const sockaddr_un& address, size_t size) {
  constexpr size_t kBegin = offsetof(sockaddr_un, sun_path) + 1;
  if (size <= kBegin || address.sun_path[0] != '\0') return "";
  return absl::StrCat("unix-abstract:",
                      absl::string_view(address.sun_path + 1, size - kBegin));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(
    Options options) {
  ASSIGN_OR_RETURN(auto listeners, ListenAt(options.endpoints));
  if (!options.same_host_address.empty()) {
    FileDescriptor listener = ListenOnSameHost(options.same_host_address);
    if (listener.get() >= 0) listeners.push_back(std::move(listener));
  }
  FileDescriptor events(epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool good = events.get() >= 0 && wake.get() >= 0 &&
              Watch(events.get(), wake.get(), EPOLLIN, wake.get());
  for (const FileDescriptor& listener : listeners) {
    good = good && Watch(events.get(), listener.get(), EPOLLIN, listener.get());
  }
  if (!good) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot wait for connections at ", options.endpoints[0]));
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
      Forget(id);
    } else {
      Accept(static_cast<int>(id));
    }
  }
}

void ConnectionGate::Accept(int listener) {
  if (WaitsForRoom(listener)) return;
  FileDescriptor fd(
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.get() < 0 && IsShortage(errno)) return Rest(listener);
  if (fd.get() < 0 || !MakeFit(fd.get()) || !Admit(fd.get())) return;
  on_connection_(listener, fd.Release());
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

// Room comes, because unknown connections are broken in time. Only this thread
// takes room: room seen here is there for the next connection.
bool ConnectionGate::WaitsForRoom(int listener) {
  MutexLock lock(&mu_);
  if (num_unknown_ < options_.max_unknown) return false;
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener, nullptr);
  waiting_listeners_.push_back(listener);
  return true;
}

void ConnectionGate::MakeRoom() {
  --num_unknown_;
  for (const int listener : std::exchange(waiting_listeners_, {})) {
    AcceptAgain(listener);
  }
}

bool ConnectionGate::Admit(int fd) {
  Connection connection{.fd = FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0)),
                        .peer = PeerNameOf(fd)};
  if (connection.fd.get() < 0 || connection.peer.empty()) return false;
  MutexLock lock(&mu_);
  if (is_closed_) return false;
  const uint64_t id = ++last_id_;
  if (!Watch(events_.get(), connection.fd.get(), EPOLLRDHUP | EPOLLET, id)) {
    return false;
  }
  connection.alarm = options_.clock->CallAt(
      options_.clock->Now() + options_.unknown_limit, [self = self_, id] {
        MutexLock gate_lock(&self->mu);
        if (self->gate != nullptr) self->gate->BreakIfUnknown(id);
      });
  ++num_unknown_;
  ids_[connection.peer] = id;
  connections_.emplace(id, std::move(connection));
  return true;
}

void ConnectionGate::Forget(uint64_t id) {
  MutexLock lock(&mu_);
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  Connection& connection = it->second;
  if (connection.is_unknown) MakeRoom();
  options_.clock->Cancel(connection.alarm);
  const auto named = ids_.find(connection.peer);
  if (named != ids_.end() && named->second == id) ids_.erase(named);
  connections_.erase(it);
}

void ConnectionGate::BreakIfUnknown(uint64_t id) {
  MutexLock lock(&mu_);
  const auto it = connections_.find(id);
  if (it == connections_.end() || !it->second.is_unknown) return;
  shutdown(it->second.fd.get(), SHUT_RDWR);
}

ConnectionGate::Connection* ConnectionGate::Find(const std::string& peer) {
  const auto named = ids_.find(PlainPeerName(peer));
  return named == ids_.end() ? nullptr : &connections_.at(named->second);
}

void ConnectionGate::Vouch(const std::string& peer) {
  MutexLock lock(&mu_);
  Connection* const connection = Find(peer);
  if (connection == nullptr || !connection->is_unknown) return;
  connection->is_unknown = false;
  MakeRoom();
  options_.clock->Cancel(connection->alarm);
}

void ConnectionGate::CountRefusal(const std::string& peer) {
  MutexLock lock(&mu_);
  Connection* const connection = Find(peer);
  if (connection == nullptr || !connection->is_unknown) return;
  if (++connection->num_refusals <= options_.max_refusals) return;
  shutdown(connection->fd.get(), SHUT_RDWR);
}

void ConnectionGate::Break(const std::string& peer) {
  MutexLock lock(&mu_);
  const Connection* const connection = Find(peer);
  if (connection != nullptr) shutdown(connection->fd.get(), SHUT_RDWR);
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
  waiting_listeners_.clear();
  for (auto& [id, connection] : connections_) {
    options_.clock->Cancel(connection.alarm);
    shutdown(connection.fd.get(), SHUT_RDWR);
  }
  connections_.clear();
  ids_.clear();
  num_unknown_ = 0;
}

size_t ConnectionGate::num_unknown() const {
  MutexLock lock(&mu_);
  return static_cast<size_t>(num_unknown_);
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
