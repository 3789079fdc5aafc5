// Tests of connections: sockets, names, credentials, and the gate.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "remote/grpc/connection/certificates_testing.h"
#include "remote/grpc/connection/connection_gate.h"
#include "remote/grpc/connection/dialer.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/proof.h"
#include "remote/grpc/connection/reserved_ports.h"
#include "remote/grpc/connection/room_to_start.h"
#include "remote/grpc/connection/same_host_socket.h"
#include "remote/grpc/connection/tls_credentials.h"
#include "remote/peer_memory.h"
#include "tests/doubles/forbid_system_call.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace connections_test {

using testing::Contains;
using testing::Each;
using testing::Gt;
using testing::ResultOf;

// --- Sockets, names and credentials ------------------------------------------

TEST(PlainPeerNameTest, EscapesAndMappedAddressesAreUndone) {
  EXPECT_EQ(PlainPeerName("ipv4:127.0.0.1:5"), "ipv4:127.0.0.1:5");
  EXPECT_EQ(PlainPeerName("ipv6:%5B::1%5D:5"), "ipv6:[::1]:5");
  EXPECT_EQ(PlainPeerName("ipv6:[fe80::1%252]:5"), "ipv6:[fe80::1]:5");
  EXPECT_EQ(PlainPeerName("ipv6:[::ffff:10.0.0.1]:5"), "ipv4:10.0.0.1:5");
}

TEST(PeerNameOfTest, OthersHaveNone) {
  int pair[2] = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const FileDescriptor first(pair[0]), second(pair[1]);
  EXPECT_EQ(PeerNameOf(first.get()), "");
  EXPECT_EQ(PeerNameOf(-1), "");
}

// Calls connect() or bind() with a new socket and this port. Returns 0 or an
// errno.
int At(int port, int (*call)(int, const sockaddr*, socklen_t)) {
  const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int result =
      call(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  return result == 0 ? 0 : errno;
}

int ConnectTo(int port) { return At(port, connect); }

// Many ports: among the 28,000 that Linux gives, so many would hardly all
// differ by chance.
TEST(ReservedPortsTest, NobodyElseIsGivenThem) {
  constexpr int kNumPorts = 400;
  const auto some = ReservedPorts::Create(kNumPorts);
  const auto others = ReservedPorts::Create(kNumPorts);
  ASSERT_THAT(some, IsOk());
  ASSERT_THAT(others, IsOk());
  EXPECT_THAT(some->get(), Each(Gt(0)));
  EXPECT_THAT(others->get(), Each(Gt(0)));
  std::set<int> all(some->get().begin(), some->get().end());
  all.insert(others->get().begin(), others->get().end());
  EXPECT_EQ(all.size(), 2 * kNumPorts);
}

TEST(ReservedPortsTest, OneAtATimeListensThereAgainAndAgain) {
  const auto ports = ReservedPorts::Create(1).value();
  const int port = ports.get()[0];
  const std::vector<std::string> endpoints = {absl::StrCat("127.0.0.1:", port)};
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(ConnectTo(port), ECONNREFUSED);
    const auto listeners = ListenAt(endpoints).value();
    EXPECT_EQ(ConnectTo(port), 0);
    EXPECT_THAT(ListenAt(endpoints), IsUnavailable("address in use"));
  }
}

TEST(ReservedPortsTest, NobodyElseGetsThemUntilTheyAreReleased) {
  std::vector<int> ports;
  {
    const auto reserved = ReservedPorts::Create(20).value();
    ports = reserved.get();
    for (int port : ports) EXPECT_EQ(At(port, bind), EADDRINUSE) << port;
  }
  // Another process may have taken some of the ports meanwhile.
  EXPECT_THAT(ports, Contains(ResultOf([](int p) { return At(p, bind); }, 0)));
}

TEST(ReservedPortsTest, WhatTheSystemRefusesIsAnError) {
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit few = old;
  few.rlim_cur = 10;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto reserved = ReservedPorts::Create(20);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_THAT(reserved.status(), IsResourceExhausted("cannot find free ports"));
}

// Address unique to this process: copies of the test may share the network
// namespace that has the names.
const std::string& Address() {
  static const std::string address = absl::StrCat(
      "same-host-socket-test-", DefaultEnvironment().get().random->Next());
  return address;
}

// Connects, or returns none.
FileDescriptor ConnectTo(const std::string& address) {
  auto fd = ConnectOnSameHost(address);
  return fd.ok() ? *std::move(fd) : FileDescriptor();
}

FileDescriptor Accept(const FileDescriptor& listener) {
  return FileDescriptor(
      accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

TEST(SameHostSocketTest, ConnectsWhoeverKnowsTheAddress) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  ASSERT_GE(listener.get(), 0);
  const FileDescriptor client = ConnectTo(Address());
  ASSERT_GE(client.get(), 0);
  const FileDescriptor server = Accept(listener);
  ASSERT_GE(server.get(), 0);
  EXPECT_EQ(ProcessAt(server.get()).value(), getpid());
  EXPECT_EQ(ProcessAt(client.get()).value(), getpid());
  ASSERT_EQ(send(client.get(), "tutti", 5, 0), 5);
  std::string text(5, ' ');
  EXPECT_EQ(recv(server.get(), text.data(), text.size(), 0), 5);
  EXPECT_EQ(text, "tutti");
}

TEST(SameHostSocketTest, ConnectionsHaveNamesOfTheirOwn) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  const FileDescriptor first = ConnectTo(Address());
  const FileDescriptor second = ConnectTo(Address());
  const std::string first_name = PeerNameOf(Accept(listener).get());
  const std::string second_name = PeerNameOf(Accept(listener).get());
  EXPECT_EQ(first_name.rfind("unix-abstract:", 0), 0) << first_name;
  EXPECT_NE(first_name, second_name);
}

TEST(SameHostSocketTest, ThereIsNoneWhereNobodyListens) {
  EXPECT_LT(ConnectTo(Address()).get(), 0);
  {
    const FileDescriptor listener = ListenOnSameHost(Address());
  }
  EXPECT_LT(ConnectTo(Address()).get(), 0);
}

TEST(SameHostSocketTest, OnlyOneListens) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  EXPECT_LT(ListenOnSameHost(Address()).get(), 0);
}

TEST(SameHostSocketTest, AddressesThatAreTooLongHaveNone) {
  std::string longest = Address();
  longest.resize(sizeof(sockaddr_un::sun_path) - 7, 'a');
  EXPECT_GE(ListenOnSameHost(longest).get(), 0);
  EXPECT_LT(ListenOnSameHost(longest + "a").get(), 0);
  EXPECT_LT(ConnectTo(longest + "a").get(), 0);
}

// Connects until the backlog is full.
TEST(SameHostSocketTest, DoesNotWaitForAProcessThatAcceptsNothing) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  ASSERT_EQ(listen(listener.get(), 1), 0);
  std::vector<FileDescriptor> waiting;
  FileDescriptor next = ConnectTo(Address());
  while (next.get() >= 0 && waiting.size() < 16) {
    waiting.push_back(std::move(next));
    next = ConnectTo(Address());
  }
  EXPECT_LT(waiting.size(), 16);
}

TEST(SameHostSocketTest, SeesThatTheOtherSideHasClosed) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  const FileDescriptor client = ConnectTo(Address());
  {
    const FileDescriptor server = Accept(listener);
    EXPECT_FALSE(IsClosedByPeer(client.get()));
    ASSERT_EQ(send(server.get(), "x", 1, 0), 1);
    EXPECT_FALSE(IsClosedByPeer(client.get()));
  }
  EXPECT_TRUE(IsClosedByPeer(client.get()));
}

TEST(TlsCredentialsTest, FailWhereTls13CannotBeDemanded) {
  TestCertificates ca("tls_no_demand");
  EXPECT_THAT(
      MakeCredentials(ca.Issue("task-0"), nullptr),
      IsFailedPrecondition("grpc_ssl_server_credentials::set_min_tls_version"));
}

TEST(TlsCredentialsTest, NeedNoDemandWithoutTls) {
  EXPECT_THAT(MakeCredentials(TlsOptions(), nullptr), IsOk());
}

// Acts as another user while it lives. The kernel notes the user of a process
// when it listens or connects.
class AsAnotherUser {
 public:
  static bool IsPossible() { return seteuid(65534) == 0 && seteuid(0) == 0; }
  AsAnotherUser() { EXPECT_EQ(seteuid(65534), 0); }
  ~AsAnotherUser() { EXPECT_EQ(seteuid(0), 0); }
};

TEST(SameHostSocketTest, DoesNotConnectToAnotherUser) {
  if (!AsAnotherUser::IsPossible()) GTEST_SKIP() << "not permitted";
  FileDescriptor listener;
  {
    const AsAnotherUser other;
    listener = ListenOnSameHost(Address());
  }
  EXPECT_THAT(ConnectOnSameHost(Address()).status(),
              IsPermissionDenied("a process of user 65534", "user 0"));
}

// Process with memory of its own that listens at a name until it is killed.
class OtherProcess {
 public:
  // `number` has another value there.
  OtherProcess(const std::string& address, volatile uint64_t& number) {
    int ready[2] = {};
    EXPECT_EQ(pipe(ready), 0);
    const FileDescriptor listener = ListenOnSameHost(address);
    process_ = fork();
    if (process_ == 0) {
      number = 22;
      listen(listener.get(), 8);  // Notes the new process.
      (void)!write(ready[1], "x", 1);
      while (true) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    for (const int fd : ready) close(fd);
  }
  ~OtherProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  pid_t get() const { return process_; }

 private:
  pid_t process_ = 0;
};

// A member may name any address, but only in its own memory.
TEST(SameHostSocketTest, MemoryIsThatOfTheProcessAtTheOtherEnd) {
  static volatile uint64_t number = 11;
  const OtherProcess other(Address(), number);
  const FileDescriptor fd = ConnectTo(Address());
  ASSERT_EQ(ProcessAt(fd.get()).value(), other.get());
  const auto memory = PeerMemory::Of(*ProcessAt(fd.get()));
  uint64_t read = 0;
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<std::byte*>(&read), sizeof(read));
  if (!memory->Read(reinterpret_cast<uintptr_t>(&number), bytes)) {
    GTEST_SKIP() << "this system does not let processes read each other";
  }
  EXPECT_EQ(read, 22);
  EXPECT_EQ(number, 11);
}

TEST(SameHostSocketTest, AProcessOutsideOfThisNamespaceHasNoMemory) {
  EXPECT_FALSE(PeerMemory::Of(0).has_value());
  EXPECT_FALSE(PeerMemory::Of(-1).has_value());
}

// --- Proof -------------------------------------------------------------------

// Side of a proof, with what it needs.
struct Side {
  Side(int task, const std::string& its_token) : token(its_token) {
    cluster.this_task = task;
  }
  Proof AsCaller(int callee) {
    return Proof::OfCaller({&cluster, &token}, callee, *random.get().random);
  }
  Proof AsCallee() {
    return Proof::OfCallee({&cluster, &token}, *random.get().random);
  }

  ClusterSpec cluster{.addresses = {"a:1", "b:2", "c:3"}};
  std::string token;
  DefaultEnvironment random{1};
};

// Messages of an exchange, in turn from the caller and the callee, and how it
// ends for both.
struct Exchange {
  std::vector<std::string> messages;
  absl::Status caller;
  absl::Status callee;
};

// Changes a message on its way; `index` counts the messages of an exchange.
using OnTheWay = std::function<void(size_t index, std::string& message)>;

Exchange Talk(Proof caller, Proof callee, const OnTheWay& change = nullptr) {
  Exchange result;
  Proof* const sides[] = {&caller, &callee};
  absl::Status* const ends[] = {&result.caller, &result.callee};
  for (size_t i = 0; i < 8; ++i) {
    std::string message = sides[i % 2]->TakeOutput();
    if (message.empty()) break;
    result.messages.push_back(message);
    if (change) change(i, message);
    Proof& to = *sides[(i + 1) % 2];
    absl::Status& end = *ends[(i + 1) % 2];
    if (end.ok()) end = to.Take(message.substr(0, to.num_missing()));
  }
  for (int i = 0; i < 2; ++i) {
    if (ends[i]->ok() && !sides[i]->is_done()) {
      *ends[i] = absl::UnknownError("not done");
    }
  }
  return result;
}

TEST(ProofTest, TasksWithOneTokenAcceptEachOther) {
  for (const char* token : {"secret", "", "\xff"}) {
    Side one(1, token), two(2, token);
    const Exchange exchange = Talk(one.AsCaller(2), two.AsCallee());
    EXPECT_THAT(exchange.caller, IsOk());
    EXPECT_THAT(exchange.callee, IsOk());
    EXPECT_EQ(exchange.messages.size(), 4);
  }
}

TEST(ProofTest, TheTokenIsNotSent) {
  Side one(1, "secret"), two(2, "secret");
  for (const std::string& message :
       Talk(one.AsCaller(2), two.AsCallee()).messages) {
    EXPECT_EQ(message.find("secret"), std::string::npos);
  }
}

TEST(ProofTest, NoTwoExchangesAreEqual) {
  Side one(1, "secret"), two(2, "secret");
  const Exchange first = Talk(one.AsCaller(2), two.AsCallee());
  const Exchange second = Talk(one.AsCaller(2), two.AsCallee());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NE(first.messages[i], second.messages[i]);
  }
}

TEST(ProofTest, AnotherTokenIsRefusedAndBothSidesKnowIt) {
  for (const char* token : {"", "secre", "secrets", "Secret", "\xff"}) {
    Side one(1, token), two(2, "secret");
    const Exchange exchange = Talk(one.AsCaller(2), two.AsCallee());
    EXPECT_THAT(exchange.caller,
                IsUnauthenticated("task 2 (c:3) refuses", "task 1 (b:2)",
                                  "does not have this job's token"));
    EXPECT_THAT(
        exchange.callee,
        IsUnauthenticated("task 1 (b:2)", "does not have this job's token"));
  }
}

// A callee without the token accepts whatever it likes.
TEST(ProofTest, ACalleeWithoutTheTokenIsRefused) {
  Side one(1, "secret"), two(2, "secret"), stranger(2, "other");
  const Exchange recorded = Talk(stranger.AsCaller(2), stranger.AsCallee());
  const Exchange exchange = Talk(one.AsCaller(2), two.AsCallee(),
                                 [&](size_t i, std::string& message) {
                                   if (i == 3) message = recorded.messages[3];
                                 });
  EXPECT_THAT(exchange.caller, IsUnauthenticated("what answers as task 2 (c:3)",
                                                 "this job's token"));
}

TEST(ProofTest, RecordedMessagesOfACallerAreRefused) {
  Side one(1, "secret"), two(2, "secret");
  const Exchange recorded = Talk(one.AsCaller(2), two.AsCallee());
  const Exchange replayed = Talk(one.AsCaller(2), two.AsCallee(),
                                 [&](size_t i, std::string& message) {
                                   if (i % 2 == 0)
                                     message = recorded.messages[i];
                                 });
  EXPECT_THAT(replayed.callee, IsUnauthenticated());
}

TEST(ProofTest, RecordedMessagesOfACalleeAreRefused) {
  Side one(1, "secret"), two(2, "secret");
  const Exchange recorded = Talk(one.AsCaller(2), two.AsCallee());
  const Exchange replayed = Talk(one.AsCaller(2), two.AsCallee(),
                                 [&](size_t i, std::string& message) {
                                   if (i % 2 == 1)
                                     message = recorded.messages[i];
                                 });
  EXPECT_THAT(replayed.caller, IsUnauthenticated());
}

// A stranger listens, and answers each message by what it was sent.
TEST(ProofTest, ReflectedMessagesAreRefused) {
  Side one(1, "secret");
  Proof caller = one.AsCaller(2);
  std::string sent = caller.TakeOutput();
  EXPECT_THAT(caller.Take(sent.substr(0, caller.num_missing())), IsOk());
  sent += caller.TakeOutput();
  EXPECT_THAT(caller.Take(sent.substr(sent.size() - caller.num_missing())),
              IsUnauthenticated());
}

// A stranger without the token calls, and has a second connection, over which
// it asks the callee for what it needs.
TEST(ProofTest, ACalleesAnswersAreNoProofOfACaller) {
  Side two(2, "secret"), stranger(1, "other");
  const Exchange exchange =
      Talk(stranger.AsCaller(2), two.AsCallee(), [](size_t i, auto& message) {
        if (i == 2) message = std::string(message.size(), '\0');
      });
  EXPECT_THAT(exchange.callee, IsUnauthenticated());
  EXPECT_EQ(exchange.messages[3].substr(4), std::string(36, '\0'));
}

TEST(ProofTest, ChangedMessagesAreRefused) {
  Side one(1, "secret"), two(2, "secret");
  const Exchange good = Talk(one.AsCaller(2), two.AsCallee());
  for (size_t i = 0; i < 4; ++i) {
    for (size_t at = 0; at < good.messages[i].size(); ++at) {
      const Exchange changed = Talk(one.AsCaller(2), two.AsCallee(),
                                    [&](size_t index, std::string& message) {
                                      if (index == i) message[at] ^= 1;
                                    });
      EXPECT_FALSE(changed.caller.ok() && changed.callee.ok())
          << "byte " << at << " of message " << i;
    }
  }
}

TEST(ProofTest, ACallToAnotherTaskIsRefused) {
  Side one(1, "secret"), other(0, "secret");
  const Exchange exchange = Talk(one.AsCaller(2), other.AsCallee());
  EXPECT_THAT(exchange.caller,
              IsFailedPrecondition("task 1 (b:2) wanted task 2 (c:3)",
                                   "there is task 0"));
  EXPECT_THAT(exchange.callee,
              IsFailedPrecondition("wanted task 2", "this is task 0 (a:1)"));
}

TEST(ProofTest, AnotherVersionIsRefused) {
  Side one(1, "secret"), two(2, "secret");
  const auto with_version = [&](size_t message_with_version) {
    return Talk(one.AsCaller(2), two.AsCallee(),
                [=](size_t i, std::string& message) {
                  if (i == message_with_version) message[8] = 77;
                });
  };
  EXPECT_THAT(with_version(0).callee,
              IsFailedPrecondition("version 77 of the protocol"));
  EXPECT_THAT(with_version(1).caller,
              IsFailedPrecondition("task 1 (b:2) speaks version \"3\"",
                                   "task 2 (c:3) speaks version \"77\""));
}

TEST(ProofTest, OtherProtocolsAreRecognisedByTheirFirstBytes) {
  Side one(1, "secret"), two(2, "secret");
  for (const char* bytes : {"G", "PRI * HTTP/2.0", "tutti?"}) {
    Proof caller = one.AsCaller(2), callee = two.AsCallee();
    EXPECT_THAT(caller.Take(bytes),
                IsUnavailable("task 2 (c:3)", "what answers there is no task"));
    EXPECT_THAT(callee.Take(bytes), IsUnavailable());
  }
  EXPECT_THAT(one.AsCaller(2).Take("\x15\x03\x03"),
              IsFailedPrecondition("task 2 (c:3)", "speaks TLS"));
}

// --- Gate --------------------------------------------------------------------

// Gate with the connections that it has passed on.
class GateTest : public testing::Test {
 protected:
  static constexpr int kMaxUnknown = 4;
  static constexpr int kMaxOfHost = 2;

  explicit GateTest(bool has_tls) : has_tls_(has_tls) {}

  void SetUp() override {
    ConnectionGate::Options options{
        .endpoints = {absl::StrCat("127.0.0.1:", port_)},
        .same_host_address = SameHostAddress(),
        .max_unknown = kMaxUnknown,
        .unknown_limit = absl::Seconds(10),
        .clock = simulated_.get().clock,
        .random = simulated_.get().random};
    if (!has_tls_) options.party = {&side_.cluster, &side_.token};
    auto gate = ConnectionGate::Listen(std::move(options));
    ASSERT_THAT(gate, IsOk());
    gate_ = *std::move(gate);
    gate_->Start([this](int /*listener*/, int fd) {
      MutexLock lock(&mu_);
      accepted_.emplace_back(fd);
      changed_.SignalAll();
    });
  }

  static FileDescriptor MakeSocket() {
    return FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }

  // Connects from 127.0.0.`host`.
  FileDescriptor Connect(int host = 1) {
    FileDescriptor fd = MakeSocket();
    Connect(fd, host);
    return fd;
  }

  void Connect(const FileDescriptor& fd, int host = 1) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(port_));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)),
              0);
  }

  // Connects, and begins a proof that it does not end.
  FileDescriptor BeginToProve() {
    FileDescriptor fd = Connect();
    Side side(1, "secret");
    Proof proof = side.AsCaller(2);
    const std::string hello = proof.TakeOutput();
    std::string challenge(proof.num_missing(), '\0');
    EXPECT_EQ(send(fd.get(), hello.data(), hello.size(), 0), hello.size());
    EXPECT_EQ(recv(fd.get(), challenge.data(), challenge.size(), MSG_WAITALL),
              challenge.size());
    return fd;
  }

  // Proves to the gate that a caller has `token`.
  static absl::Status Prove(const FileDescriptor& fd,
                            const std::string& token = "secret") {
    Side side(1, token);
    Proof proof = side.AsCaller(2);
    absl::StatusOr<bool> is_done = false;
    while (is_done.ok() && !*is_done) {
      is_done = Continue(proof, fd.get());
      pollfd readable = {.fd = fd.get(), .events = POLLIN, .revents = 0};
      if (is_done.ok() && !*is_done) poll(&readable, 1, /*timeout=*/-1);
    }
    return is_done.status();
  }

  std::string SameHostAddress() const {
    return absl::StrCat("connection-gate-test:", port_);
  }

  void WaitForAccepted(size_t count) {
    MutexLock lock(&mu_);
    while (accepted_.size() < count) changed_.Wait(&mu_);
  }

  size_t num_accepted() {
    MutexLock lock(&mu_);
    return accepted_.size();
  }

  // Returns whether the other side has closed `fd`. Without MSG_DONTWAIT,
  // blocks until it has.
  static bool IsClosed(const FileDescriptor& fd, int flags = 0) {
    char byte = 0;
    const ssize_t size = recv(fd.get(), &byte, 1, flags);
    return size == 0 || (size < 0 && errno != EAGAIN);
  }

  // Returns gRPC's name for the other side of `fd`.
  static std::string NameOf(const FileDescriptor& fd) {
    sockaddr_in own = {};
    socklen_t size = sizeof(own);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size);
    return absl::StrCat("ipv4:127.0.0.1:", ntohs(own.sin_port));
  }

  std::string accepted_name(size_t index) {
    MutexLock lock(&mu_);
    return PeerNameOf(accepted_[index].get());
  }

  const bool has_tls_;
  Side side_{2, "secret"};
  const ReservedPorts ports_ = *ReservedPorts::Create(1);
  const int port_ = ports_.get()[0];
  SimulatedEnvironment simulated_{/*seed=*/1};
  Mutex mu_;
  CondVar changed_;
  std::vector<FileDescriptor> accepted_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ConnectionGate> gate_;
};

// Gate whose callers must prove that they are tasks.
class StrangersTest : public GateTest {
 protected:
  StrangersTest() : GateTest(/*has_tls=*/false) {}
};

TEST_F(StrangersTest, TasksPassOverBothKindsOfSocket) {
  const FileDescriptor tcp = Connect();
  const FileDescriptor unix_socket = ConnectTo(SameHostAddress());
  EXPECT_THAT(Prove(tcp), IsOk());
  EXPECT_THAT(Prove(unix_socket), IsOk());
  WaitForAccepted(2);
  EXPECT_EQ(gate_->num_unknown(), 0);
  EXPECT_EQ(simulated_.num_alarms(), 0);
  gate_->Break(NameOf(tcp));
  EXPECT_TRUE(IsClosed(tcp));
  EXPECT_FALSE(IsClosed(unix_socket, MSG_DONTWAIT));
}

TEST_F(StrangersTest, AnotherTokenDoesNotPass) {
  for (const char* token : {"", "other"}) {
    const FileDescriptor fd = Connect();
    EXPECT_THAT(Prove(fd, token), IsUnauthenticated("task 2 (c:3) refuses"));
    EXPECT_TRUE(IsClosed(fd));
  }
  EXPECT_EQ(num_accepted(), 0);
}

TEST_F(StrangersTest, AnotherUserDoesNotPass) {
  if (!AsAnotherUser::IsPossible()) GTEST_SKIP() << "not permitted";
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  const std::string name = "tutti/" + SameHostAddress();
  name.copy(to.sun_path + 1, name.size());
  const FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    const AsAnotherUser other;
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                             1 + name.size())),
              0);
  }
  EXPECT_TRUE(IsClosed(fd));
  EXPECT_EQ(num_accepted(), 0);
}

// gRPC would read headers of any length.
TEST_F(StrangersTest, OtherProtocolsAreCutOffAfterTheirFirstBytes) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n"), std::string("\x16\x03\x01\0\5h", 6),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") +
            std::string(1 << 20, 'h'),
        std::string(1 << 20, '\0')}) {
    const FileDescriptor fd = Connect();
    (void)!send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char answer[8];
    while (recv(fd.get(), answer, sizeof(answer), 0) > 0) {
    }
  }
  EXPECT_EQ(num_accepted(), 0);
  EXPECT_EQ(gate_->num_unknown(), 0);
}

TEST_F(StrangersTest, SilentConnectionsEndInTime) {
  const FileDescriptor silent = Connect();
  const FileDescriptor slow = BeginToProve();
  simulated_.Advance(absl::Seconds(10));
  EXPECT_TRUE(IsClosed(silent));
  EXPECT_TRUE(IsClosed(slow));
  EXPECT_EQ(gate_->num_unknown(), 0);
}

TEST_F(StrangersTest, ATaskPassesHoweverManyConnectionsAreSilent) {
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 20 * kMaxUnknown; ++i)
    silent.push_back(Connect(i % 9 + 1));
  const FileDescriptor task = Connect();
  EXPECT_THAT(Prove(task), IsOk());
  WaitForAccepted(1);
  for (int i = 0; i < 20 * kMaxUnknown; ++i)
    silent.push_back(Connect(i % 9 + 1));
  EXPECT_TRUE(IsClosed(silent.front()));
  EXPECT_FALSE(IsClosed(task, MSG_DONTWAIT));
  EXPECT_LE(gate_->num_unknown(), kMaxUnknown);
}

TEST_F(StrangersTest, TheConnectionsOfOneHostLeaveRoomForOthers) {
  const FileDescriptor other = Connect(/*host=*/2);
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 20 * kMaxUnknown; ++i) silent.push_back(BeginToProve());
  EXPECT_EQ(gate_->num_unknown(), kMaxOfHost + 1);
  EXPECT_THAT(Prove(other), IsOk());
  for (int i = 0; i < 20 * kMaxUnknown - kMaxOfHost; ++i) {
    EXPECT_TRUE(IsClosed(silent[i]));
  }
}

// Gate whose connections are gRPC's from the first byte, as with TLS.
class ConnectionGateTest : public GateTest {
 protected:
  ConnectionGateTest() : GateTest(/*has_tls=*/true) {}
};

TEST_F(ConnectionGateTest, ANewConnectionTakesThePlaceOfTheOldestUnknownOne) {
  const FileDescriptor known = Connect();
  WaitForAccepted(1);
  gate_->Vouch(NameOf(known));
  std::vector<FileDescriptor> fds;
  for (int i = 0; i < 2 * kMaxUnknown; ++i) {
    fds.push_back(Connect(i % kMaxUnknown + 1));
    WaitForAccepted(fds.size() + 1);
  }
  for (int i = 0; i < 2 * kMaxUnknown; ++i) {
    const bool is_old = i < kMaxUnknown;
    EXPECT_EQ(IsClosed(fds[i], is_old ? 0 : MSG_DONTWAIT), is_old) << i;
  }
  EXPECT_FALSE(IsClosed(known, MSG_DONTWAIT));
}

TEST_F(ConnectionGateTest, ConnectionsThatNobodyVouchesForEndInTime) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  gate_->Vouch(NameOf(first));
  gate_->Vouch("ipv4:127.0.0.1:1");
  EXPECT_EQ(gate_->num_unknown(), 1);
  simulated_.Advance(absl::Seconds(10));
  EXPECT_TRUE(IsClosed(second));
  EXPECT_EQ(simulated_.num_alarms(), 0);
  gate_->Break(NameOf(first));
  EXPECT_TRUE(IsClosed(first));
}

// Keeps the process from opening more file descriptors, while the object lives.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = FileDescriptor(dup(0)).get();  // First free one.
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(RoomToStartTest, WhatIsMissingIsNamedWithTheReasonOfTheSystem) {
  EXPECT_THAT(CheckRoomToStart(), IsOk());
  {
    const NoMoreDescriptors none;
    EXPECT_THAT(CheckRoomToStart(),
                IsResourceExhausted("16 more descriptors", "may have 0",
                                    "Too many open files"));
  }
  bool is_forbidden = false;
  absl::Status status;
  std::thread([&] {
    is_forbidden = ForbidSystemCall(SYS_clone) && ForbidSystemCall(SYS_clone3);
    if (is_forbidden) status = CheckRoomToStart();
  }).join();
  if (!is_forbidden) GTEST_SKIP() << "this system does not forbid it";
  EXPECT_THAT(status, IsResourceExhausted("16 more threads", "may have 0",
                                          "Operation not permitted"));
}

TEST_F(ConnectionGateTest, WithoutADescriptorConnectionsWait) {
  const FileDescriptor fd = MakeSocket();
  {
    const NoMoreDescriptors none;
    Connect(fd);
    while (simulated_.num_alarms() == 0) std::this_thread::yield();
  }
  EXPECT_EQ(gate_->num_unknown(), 0);
  simulated_.Advance(absl::Milliseconds(100));
  WaitForAccepted(1);
  EXPECT_FALSE(IsClosed(fd, MSG_DONTWAIT));
}

TEST_F(ConnectionGateTest, AListenerThatCannotBeWatchedAfterARestRestsAgain) {
  const FileDescriptor fd = MakeSocket();
  {
    const NoMoreDescriptors none;
    Connect(fd);
    while (simulated_.num_alarms() == 0) std::this_thread::yield();
  }
  bool is_forbidden = false;
  std::thread rings([&] {
    is_forbidden = ForbidSystemCall(SYS_epoll_ctl);
    simulated_.Advance(absl::Milliseconds(100));
  });
  rings.join();
  simulated_.Advance(absl::Milliseconds(100));
  WaitForAccepted(1);
  if (!is_forbidden) GTEST_SKIP() << "this system does not forbid it";
}

TEST_F(ConnectionGateTest, CloseBreaksWhatIsOpen) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  gate_->Close();
  EXPECT_TRUE(IsClosed(first));
  EXPECT_TRUE(IsClosed(second));
  EXPECT_EQ(simulated_.num_alarms(), 0);
}

TEST_F(ConnectionGateTest, KnowsConnectionsOfTheSameHost) {
  const FileDescriptor first = ConnectTo(SameHostAddress());
  WaitForAccepted(1);
  const FileDescriptor second = ConnectTo(SameHostAddress());
  WaitForAccepted(2);
  gate_->Vouch(accepted_name(0));
  EXPECT_EQ(gate_->num_unknown(), 1);
  simulated_.Advance(absl::Seconds(10));
  EXPECT_TRUE(IsClosedByPeer(second.get()));
  EXPECT_FALSE(IsClosedByPeer(first.get()));
  gate_->Break(accepted_name(0));
  EXPECT_TRUE(IsClosedByPeer(first.get()));
}

TEST_F(ConnectionGateTest, ATakenPortIsAnError) {
  EXPECT_THAT(
      ConnectionGate::Listen({.endpoints = {absl::StrCat("127.0.0.1:", port_)},
                              .clock = simulated_.get().clock})
          .status(),
      IsUnavailable("address in use"));
}

// --- Dialer ------------------------------------------------------------------

// Task 1, which dials task 2 at a port of this host.
class DialerTest : public testing::Test {
 protected:
  ~DialerTest() override {
    if (dialer_ != nullptr) dialer_->Close();
  }

  // Begins to dial. `host` is that of task 2.
  void Dial(const std::string& token = "secret",
            const std::string& host = "127.0.0.1") {
    side_.token = token;
    side_.cluster.addresses[2] = absl::StrCat(host, ":", port_);
    dialer_ = Dialer::Create({.party = {&side_.cluster, &side_.token},
                              .environment = simulated_.get(),
                              .same_host = true});
    done_ = std::make_unique<BlockingCounter>(1);
    dialer_->Dial(2, [this](absl::StatusOr<ProvenSocket> socket) {
      result_ = std::move(socket);
      done_->DecrementCount();
    });
  }

  absl::StatusOr<ProvenSocket> Wait() {
    done_->Wait();
    return std::move(result_);
  }

  // Accepts one caller as task 2, and checks its proof. Blocks.
  absl::Status Serve(const FileDescriptor& listener,
                     const std::string& token = "secret") {
    const FileDescriptor fd(
        accept4(WaitFor(listener.get()), nullptr, nullptr, SOCK_CLOEXEC));
    Side side(2, token);
    Proof proof = side.AsCallee();
    absl::StatusOr<bool> is_done = false;
    while (is_done.ok() && !*is_done)
      is_done = Continue(proof, WaitFor(fd.get()));
    return is_done.status();
  }

  static int WaitFor(int fd) {
    pollfd readable = {.fd = fd, .events = POLLIN, .revents = 0};
    poll(&readable, 1, /*timeout=*/-1);
    return fd;
  }

  FileDescriptor Listen() {
    return std::move(
        ListenAt({absl::StrCat("127.0.0.1:", port_)}).value().front());
  }

  FileDescriptor ListenAtUnixSocket() {
    return ListenOnSameHost(absl::StrCat("127.0.0.1:", port_));
  }

  const ReservedPorts ports_ = *ReservedPorts::Create(1);
  const int port_ = ports_.get()[0];
  SimulatedEnvironment simulated_{/*seed=*/1};
  Side side_{1, "secret"};
  std::shared_ptr<Dialer> dialer_;
  absl::StatusOr<ProvenSocket> result_;
  std::unique_ptr<BlockingCounter> done_;
};

TEST_F(DialerTest, ReachesATaskOverAUnixSocketAndKnowsItsProcess) {
  const FileDescriptor tcp = Listen(), unix_socket = ListenAtUnixSocket();
  Dial();
  EXPECT_THAT(Serve(unix_socket), IsOk());
  const auto socket = Wait();
  ASSERT_THAT(socket, IsOk());
  EXPECT_EQ(socket->process, getpid());
  EXPECT_EQ(simulated_.num_alarms(), 0);
}

TEST_F(DialerTest, ReachesATaskOverTcpAndKnowsNoProcess) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const FileDescriptor tcp = Listen();
    Dial("secret", host);
    EXPECT_THAT(Serve(tcp), IsOk());
    const auto socket = Wait();
    ASSERT_THAT(socket, IsOk()) << host;
    EXPECT_EQ(socket->process, 0);
    dialer_->Close();
  }
}

TEST_F(DialerTest, AProcessThatListensAndHasNoTokenIsRefused) {
  const FileDescriptor tcp = Listen();
  Dial();
  EXPECT_THAT(Serve(tcp, "other"), IsUnauthenticated());
  EXPECT_THAT(Wait().status(),
              IsUnauthenticated("task 2 (127.0.0.1:", "this job's token"));
}

// Falls back to TCP, where the token tells who answers.
TEST_F(DialerTest, ATokenTellsWhoAnswersWhereAnotherUserHasTheUnixSocket) {
  if (!AsAnotherUser::IsPossible()) GTEST_SKIP() << "not permitted";
  FileDescriptor squatter;
  {
    const AsAnotherUser other;
    squatter = ListenAtUnixSocket();
  }
  const FileDescriptor tcp = Listen();
  Dial();
  EXPECT_THAT(Serve(tcp), IsOk());
  EXPECT_THAT(Wait(), IsOk());
}

TEST_F(DialerTest, WithoutATokenAUnixSocketOfAnotherUserIsAnError) {
  if (!AsAnotherUser::IsPossible()) GTEST_SKIP() << "not permitted";
  FileDescriptor squatter;
  {
    const AsAnotherUser other;
    squatter = ListenAtUnixSocket();
  }
  const FileDescriptor tcp = Listen();
  Dial(/*token=*/"");
  EXPECT_THAT(Wait().status(),
              IsPermissionDenied("task 2 (127.0.0.1:", "user 65534",
                                 "without a token"));
}

TEST_F(DialerTest, SaysWhyATaskCannotBeReached) {
  Dial();
  EXPECT_THAT(Wait().status(),
              IsUnavailable("task 2 (127.0.0.1:", "connection refused"));
  dialer_->Close();
  Dial("secret", "no such host");
  EXPECT_THAT(Wait().status(),
              IsUnavailable("task 2 (", "host name cannot be resolved"));
}

TEST_F(DialerTest, AListenerThatStaysSilentIsGivenUp) {
  const FileDescriptor tcp = Listen();
  Dial();
  simulated_.Advance(absl::Seconds(5));
  EXPECT_THAT(Wait().status(), IsUnavailable("task 2 (", "no answer"));
}

TEST_F(DialerTest, AListenerThatClosesIsNamed) {
  const FileDescriptor tcp = Listen();
  Dial();
  {
    const FileDescriptor fd(
        accept4(WaitFor(tcp.get()), nullptr, nullptr, SOCK_CLOEXEC));
    WaitFor(fd.get());
  }
  EXPECT_THAT(Wait().status(), IsUnavailable("task 2 (", "connection closed"));
}

TEST_F(DialerTest, CloseEndsWhatIsUnderWayAndWhatComesLater) {
  const FileDescriptor tcp = Listen();
  Dial();
  dialer_->Close();
  EXPECT_THAT(Wait().status(), IsCancelled("shut down"));
  dialer_->Dial(2, [](const absl::StatusOr<ProvenSocket>& socket) {
    EXPECT_THAT(socket.status(), IsCancelled("shut down"));
  });
  EXPECT_EQ(simulated_.num_alarms(), 0);
}

}  // namespace connections_test
}  // namespace tutti
