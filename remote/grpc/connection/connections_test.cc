// Tests of connections: sockets, names, credentials, and the gate.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "remote/grpc/connection/certificates_testing.h"
#include "remote/grpc/connection/connection_gate.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/reserved_ports.h"
#include "remote/grpc/connection/same_host_socket.h"
#include "remote/grpc/connection/tls_credentials.h"
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

FileDescriptor Accept(const FileDescriptor& listener) {
  return FileDescriptor(
      accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

TEST(SameHostSocketTest, ConnectsWhoeverKnowsTheAddress) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  ASSERT_GE(listener.get(), 0);
  const FileDescriptor client = ConnectOnSameHost(Address());
  ASSERT_GE(client.get(), 0);
  const FileDescriptor server = Accept(listener);
  ASSERT_GE(server.get(), 0);
  EXPECT_TRUE(IsOfSameUser(server.get()));
  ASSERT_EQ(send(client.get(), "tutti", 5, 0), 5);
  std::string text(5, ' ');
  EXPECT_EQ(recv(server.get(), text.data(), text.size(), 0), 5);
  EXPECT_EQ(text, "tutti");
}

TEST(SameHostSocketTest, ConnectionsHaveNamesOfTheirOwn) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  const FileDescriptor first = ConnectOnSameHost(Address());
  const FileDescriptor second = ConnectOnSameHost(Address());
  const std::string first_name = PeerNameOf(Accept(listener).get());
  const std::string second_name = PeerNameOf(Accept(listener).get());
  EXPECT_EQ(first_name.rfind("unix-abstract:", 0), 0) << first_name;
  EXPECT_NE(first_name, second_name);
}

TEST(SameHostSocketTest, ThereIsNoneWhereNobodyListens) {
  EXPECT_LT(ConnectOnSameHost(Address()).get(), 0);
  {
    const FileDescriptor listener = ListenOnSameHost(Address());
  }
  EXPECT_LT(ConnectOnSameHost(Address()).get(), 0);
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
  EXPECT_LT(ConnectOnSameHost(longest + "a").get(), 0);
}

// Connects until the backlog is full.
TEST(SameHostSocketTest, DoesNotWaitForAProcessThatAcceptsNothing) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  ASSERT_EQ(listen(listener.get(), 1), 0);
  std::vector<FileDescriptor> waiting;
  FileDescriptor next = ConnectOnSameHost(Address());
  while (next.get() >= 0 && waiting.size() < 16) {
    waiting.push_back(std::move(next));
    next = ConnectOnSameHost(Address());
  }
  EXPECT_LT(waiting.size(), 16);
}

TEST(SameHostSocketTest, SeesThatTheOtherSideHasClosed) {
  const FileDescriptor listener = ListenOnSameHost(Address());
  const FileDescriptor client = ConnectOnSameHost(Address());
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

// --- Gate --------------------------------------------------------------------

// Gate with its accepted connections.
class ConnectionGateTest : public testing::Test {
 protected:
  void SetUp() override {
    auto gate = ConnectionGate::Listen(
        {.endpoints = {absl::StrCat("127.0.0.1:", port_)},
         .same_host_address = SameHostAddress(),
         .max_unknown = 2,
         .unknown_limit = absl::Seconds(10),
         .max_refusals = 3,
         .clock = simulated_.get().clock});
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

  FileDescriptor Connect() {
    FileDescriptor fd = MakeSocket();
    Connect(fd);
    return fd;
  }

  void Connect(const FileDescriptor& fd) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(port_));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)),
              0);
  }

  std::string SameHostAddress() const {
    return absl::StrCat("connection-gate-test:", port_);
  }

  void WaitForAccepted(size_t count) {
    MutexLock lock(&mu_);
    while (accepted_.size() < count) changed_.Wait(&mu_);
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

  const ReservedPorts ports_ = *ReservedPorts::Create(1);
  const int port_ = ports_.get()[0];
  SimulatedEnvironment simulated_{/*seed=*/1};
  Mutex mu_;
  CondVar changed_;
  std::vector<FileDescriptor> accepted_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ConnectionGate> gate_;
};

TEST_F(ConnectionGateTest, ConnectionsBeyondTheBoundWaitForRoom) {
  constexpr size_t kNumConnections = 20;
  std::vector<FileDescriptor> fds;
  for (size_t i = 0; i < kNumConnections; ++i) {
    fds.push_back(i % 2 == 0 ? Connect()
                             : ConnectOnSameHost(SameHostAddress()));
  }
  for (size_t i = 0; i < kNumConnections; ++i) {
    WaitForAccepted(i + 1);
    EXPECT_LE(gate_->num_unknown(), 2);
    gate_->Vouch(accepted_name(i));
  }
  for (const FileDescriptor& fd : fds) {
    EXPECT_FALSE(IsClosed(fd, MSG_DONTWAIT));
  }
}

TEST_F(ConnectionGateTest, TheEndOfConnectionsMakesRoomForOthers) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  const FileDescriptor third = Connect(), fourth = Connect();
  simulated_.Advance(absl::Seconds(10));
  EXPECT_TRUE(IsClosed(first));
  EXPECT_TRUE(IsClosed(second));
  WaitForAccepted(4);
  EXPECT_FALSE(IsClosed(third, MSG_DONTWAIT));
  EXPECT_FALSE(IsClosed(fourth, MSG_DONTWAIT));
}

TEST_F(ConnectionGateTest, VouchingMakesRoomForOthers) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  gate_->Vouch(NameOf(first));
  gate_->Vouch("ipv4:127.0.0.1:1");
  EXPECT_EQ(gate_->num_unknown(), 1);
  const FileDescriptor third = Connect();
  WaitForAccepted(3);
}

TEST_F(ConnectionGateTest, ConnectionsThatNobodyVouchesForEndInTime) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  simulated_.Advance(absl::Seconds(10));
  EXPECT_TRUE(IsClosed(second));
  EXPECT_EQ(simulated_.num_alarms(), 0);
  gate_->Break(NameOf(first));
  EXPECT_TRUE(IsClosed(first));
}

TEST_F(ConnectionGateTest, ConnectionsOfManyRefusedCallsEnd) {
  const FileDescriptor first = Connect(), second = Connect();
  WaitForAccepted(2);
  gate_->Vouch(NameOf(first));
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(IsClosed(second, MSG_DONTWAIT));
    gate_->CountRefusal(NameOf(first));
    gate_->CountRefusal(NameOf(second));
  }
  EXPECT_TRUE(IsClosed(second));
  EXPECT_FALSE(IsClosed(first, MSG_DONTWAIT));
  gate_->CountRefusal("ipv4:127.0.0.1:1");
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
  const FileDescriptor first = ConnectOnSameHost(SameHostAddress());
  WaitForAccepted(1);
  const FileDescriptor second = ConnectOnSameHost(SameHostAddress());
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

}  // namespace connections_test
}  // namespace tutti
