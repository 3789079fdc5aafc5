#include "remote/grpc/connection/dialer.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/same_host_socket.h"
#include "remote/grpc/wire/status_codec.h"

namespace tutti {
namespace {

// Event that ends the thread; ids of attempts begin after it.
constexpr uint64_t kWake = 0;

bool WatchSocket(int events, int fd, uint32_t what, uint64_t id,
                 int operation) {
  epoll_event event = {};
  event.events = what;
  event.data.u64 = id;
  return epoll_ctl(events, operation, fd, &event) == 0;
}

absl::Status ShutDown() {
  return absl::CancelledError("the transport has been shut down");
}

absl::Status ErrorOf(absl::string_view peer, absl::string_view words) {
  return ConnectionError(
      peer, grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(words)));
}

absl::Status ErrorOf(absl::string_view peer, int error) {
  return ErrorOf(peer,
                 std::error_code(error, std::generic_category()).message());
}

// Errors: RESOURCE_EXHAUSTED if the system gives no thread.
absl::Status StartThread(absl::string_view label, std::thread& thread,
                         std::function<void()> run) {
  try {
    thread = std::thread(std::move(run));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        label, ": no thread to connect with: ", error.code().message()));
  }
  return absl::OkStatus();
}

// Makes a socket like those of gRPC: what it is given it sends at once, and it
// breaks if the other side confirms nothing for long.
FileDescriptor MakeTcpSocket(int family) {
  FileDescriptor fd(
      socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_set()) return fd;
  const int yes = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  const unsigned int limit =
      absl::ToInt64Milliseconds(DefaultTime("ping answer"));
  setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
  return fd;
}

// Returns whether a socket is connected to itself, as TCP allows where nobody
// listens at a port and the system gives it to the caller.
bool IsOwnPeer(int fd) {
  sockaddr_storage own = {}, other = {};
  socklen_t own_size = sizeof(own), other_size = sizeof(other);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_size) ==
             0 &&
         own.ss_family != AF_UNIX && own_size == other_size &&
         std::memcmp(&own, &other, own_size) == 0;
}

// Returns 0, or the error with which connect() has ended.
int ErrorAt(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error == 0 && IsOwnPeer(fd) ? ECONNREFUSED : error;
}

}  // namespace

std::shared_ptr<Dialer> Dialer::Create(const Options& options) {
  return std::make_shared<Dialer>(options);
}

Dialer::~Dialer() = default;

void Dialer::Dial(int task, Done done) {
  MaybeEnded ended;
  {
    MutexLock lock(&mu_);
    in_flight_.BeginMore();
    const uint64_t id = ++last_id_;
    attempts_.emplace(id, Attempt{.task = task, .done = std::move(done)});
    const absl::Status started = Start();
    ended = started.ok() ? Begin(id) : End(id, started);
  }
  RunDone(std::move(ended));
}

absl::Status Dialer::Start() {
  if (is_closed_) return ShutDown();
  if (thread_.joinable()) return absl::OkStatus();
  events_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!WatchSocket(events_.get(), wake_.get(), EPOLLIN, kWake, EPOLL_CTL_ADD)) {
    return ErrorOf(Label(options_.party.cluster->this_task), errno);
  }
  return StartThread(Label(options_.party.cluster->this_task), thread_,
                     [this] { Run(); });
}

void Dialer::Run() {
  int events = -1;
  {
    MutexLock lock(&mu_);
    events = events_.get();
  }
  while (true) {
    epoll_event event = {};
    const int count = epoll_wait(events, &event, 1, /*timeout=*/-1);
    if (count < 0 && errno != EINTR) return;
    if (count <= 0) continue;
    if (event.data.u64 == kWake) return;
    RunDone(OnSocket(event.data.u64));
  }
}

void Dialer::RunDone(MaybeEnded ended) {
  if (!ended) return;
  std::move(ended->done)(std::move(ended->result));
  in_flight_.End();
}

Dialer::MaybeEnded Dialer::Begin(uint64_t id) {
  Attempt& attempt = attempts_.at(id);
  const std::string& address = options_.party.cluster->addresses[attempt.task];
  SetAlarm(id);
  if (options_.same_host) {
    auto socket = ConnectOnSameHost(address);
    if (!socket.ok() && options_.party.token->empty()) {
      return End(id, absl::PermissionDeniedError(absl::StrCat(
                         Label(attempt.task), ": ", socket.status().message(),
                         ", and without a token nothing tells whether it is "
                         "this job's")));
    }
    if (socket.ok() && socket->is_set()) {
      attempt.socket = {.fd = *std::move(socket)};
      attempt.socket.process = ProcessAt(attempt.socket.fd.get()).value_or(0);
      return Prove(id, EPOLL_CTL_ADD);
    }
  }
  auto found = LookUp(address, AI_NUMERICHOST);
  const auto known = known_.find(attempt.task);
  if (!found.ok() && known != known_.end()) found = known->second;
  if (found.ok()) {
    attempt.left = *std::move(found);
    return Connect(id);
  }
  attempt.is_looking_up = true;
  const absl::Status begun = LookUpSoon(attempt.task);
  return begun.ok() ? std::nullopt : End(id, begun);
}

absl::StatusOr<Dialer::Addresses> Dialer::LookUp(const std::string& address,
                                                 int flags) {
  const auto [host, port] = SplitAddress(address);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) {
    return absl::UnavailableError("DNS resolution failed");
  }
  const absl::Cleanup free = [list] { freeaddrinfo(list); };
  Addresses addresses;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    if (info->ai_addrlen > sizeof(sockaddr_storage)) continue;
    Address& copy = addresses.emplace_back();
    std::memcpy(&copy.bytes, info->ai_addr, info->ai_addrlen);
    copy.size = info->ai_addrlen;
  }
  std::reverse(addresses.begin(), addresses.end());
  return addresses;
}

// Looks a name up on a thread that nothing waits for: the system may take long.
absl::Status Dialer::LookUpSoon(int task) {
  if (looked_up_.contains(task)) return absl::OkStatus();
  std::thread thread;
  RETURN_IF_ERROR(
      StartThread(Label(task), thread,
                  [self = shared_from_this(), task,
                   address = options_.party.cluster->addresses[task]] {
                    self->OnLookUp(task, LookUp(address, /*flags=*/0));
                  }));
  looked_up_.insert(task);
  thread.detach();
  return absl::OkStatus();
}

void Dialer::OnLookUp(int task, const absl::StatusOr<Addresses>& found) {
  std::vector<MaybeEnded> ended;
  {
    MutexLock lock(&mu_);
    looked_up_.erase(task);
    if (found.ok()) known_[task] = *found;
    std::vector<uint64_t> waiting;
    for (auto& [id, attempt] : attempts_) {
      if (attempt.task == task && attempt.is_looking_up) waiting.push_back(id);
    }
    for (const uint64_t id : waiting) {
      Attempt& attempt = attempts_.at(id);
      attempt.is_looking_up = false;
      if (found.ok()) attempt.left = *found;
      ended.push_back(
          found.ok() ? Connect(id)
                     : End(id, ErrorOf(Label(task), found.status().message())));
    }
  }
  for (MaybeEnded& one : ended) RunDone(std::move(one));
}

bool Dialer::BeginToConnect(int fd, const Address& address) {
  const auto* const to = reinterpret_cast<const sockaddr*>(&address.bytes);
  return connect(fd, to, address.size) == 0 || errno == EINPROGRESS;
}

// Connects to the next address that does not fail at once.
Dialer::MaybeEnded Dialer::Connect(uint64_t id) {
  Attempt& attempt = attempts_.at(id);
  attempt.proof.reset();
  while (!attempt.left.empty()) {
    const Address address = attempt.left.back();
    attempt.left.pop_back();
    FileDescriptor& fd = attempt.socket.fd;
    fd = MakeTcpSocket(address.bytes.ss_family);
    if (fd.is_set() && BeginToConnect(fd.get(), address) &&
        WatchSocket(events_.get(), fd.get(), EPOLLOUT, id, EPOLL_CTL_ADD)) {
      SetAlarm(id);
      return std::nullopt;
    }
    attempt.last_error = ErrorOf(Label(attempt.task), errno);
  }
  known_.erase(attempt.task);
  return End(id, attempt.last_error);
}

// Begins the proof over a connected socket.
Dialer::MaybeEnded Dialer::Prove(uint64_t id, int operation) {
  Attempt& attempt = attempts_.at(id);
  attempt.proof = Proof::OfCaller(options_.party, attempt.task,
                                  *options_.environment.random);
  const int fd = attempt.socket.fd.get();
  const auto is_done = Continue(*attempt.proof, fd);
  if (!is_done.ok() || *is_done) return End(id, is_done.status());
  if (WatchSocket(events_.get(), fd, EPOLLIN, id, operation)) {
    return std::nullopt;
  }
  return End(id, ErrorOf(Label(attempt.task), errno));
}

Dialer::MaybeEnded Dialer::OnSocket(uint64_t id) {
  MutexLock lock(&mu_);
  const auto it = attempts_.find(id);
  if (it == attempts_.end()) return std::nullopt;
  Attempt& attempt = it->second;
  const int fd = attempt.socket.fd.get();
  if (!attempt.proof) {
    const int error = ErrorAt(fd);
    if (error == 0) return Prove(id, EPOLL_CTL_MOD);
    attempt.last_error = ErrorOf(Label(attempt.task), error);
    return Connect(id);
  }
  const auto is_done = Continue(*attempt.proof, fd);
  if (is_done.ok() && !*is_done) return std::nullopt;
  return End(id, is_done.status());
}

// Gives up an address that does not answer.
Dialer::MaybeEnded Dialer::OnAlarm(uint64_t id) {
  MutexLock lock(&mu_);
  const auto it = attempts_.find(id);
  if (it == attempts_.end()) return std::nullopt;
  Attempt& attempt = it->second;
  attempt.alarm.reset();
  attempt.last_error = ErrorOf(Label(attempt.task), ETIMEDOUT);
  if (attempt.is_looking_up) return End(id, attempt.last_error);
  return Connect(id);
}

void Dialer::SetAlarm(uint64_t id) {
  Clock& clock = *options_.environment.clock;
  Attempt& attempt = attempts_.at(id);
  if (attempt.alarm) clock.Cancel(*attempt.alarm);
  attempt.alarm = clock.CallAt(
      clock.Now() + DefaultTime("connect"),
      [self = shared_from_this(), id] { self->RunDone(self->OnAlarm(id)); });
}

Dialer::MaybeEnded Dialer::End(uint64_t id, absl::Status status) {
  auto node = attempts_.extract(id);
  Attempt& attempt = node.mapped();
  if (attempt.alarm) options_.environment.clock->Cancel(*attempt.alarm);
  if (status == absl::UnavailableError(kClosed)) {
    status = ConnectionClosed(Label(attempt.task));
  }
  if (!status.ok()) return Ended{std::move(attempt.done), std::move(status)};
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, attempt.socket.fd.get(), nullptr);
  return Ended{std::move(attempt.done), std::move(attempt.socket)};
}

void Dialer::Close() {
  std::vector<MaybeEnded> ended;
  std::thread thread;
  {
    MutexLock lock(&mu_);
    is_closed_ = true;
    while (!attempts_.empty()) {
      ended.push_back(End(attempts_.begin()->first, ShutDown()));
    }
    thread.swap(thread_);
    if (thread.joinable()) eventfd_write(wake_.get(), 1);
  }
  for (MaybeEnded& one : ended) RunDone(std::move(one));
  if (thread.joinable()) thread.join();
  in_flight_.Wait();
}

}  // namespace tutti
