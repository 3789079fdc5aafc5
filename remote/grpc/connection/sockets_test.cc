// Tests ports, sockets of the same host, names of peers and TLS credentials.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "remote/grpc/connection/connection_gate.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/listen_address.h"
#include "remote/grpc/connection/reserved_ports.h"
#include "remote/grpc/connection/same_host_socket.h"
#include "remote/grpc/connection/test_certificates.h"
#include "remote/grpc/connection/tls_credentials.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace sockets_test {

using testing::Contains;
using testing::Each;
using testing::Gt;
using testing::ResultOf;

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
  const auto ports = ReservedPorts::Create(1);
  ASSERT_THAT(ports, IsOk());
  const int port = ports->get()[0];
  const std::vector<std::string> endpoints = {absl::StrCat("127.0.0.1:", port)};
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(ConnectTo(port), ECONNREFUSED);
    const auto listeners = ListenAt(endpoints);
    ASSERT_THAT(listeners, IsOk());
    EXPECT_EQ(ConnectTo(port), 0);
    EXPECT_THAT(ListenAt(endpoints), IsUnavailable("address in use"));
  }
}

TEST(ReservedPortsTest, NobodyElseGetsThemUntilTheyAreReleased) {
  std::vector<int> ports;
  {
    const auto reserved = ReservedPorts::Create(20);
    ASSERT_THAT(reserved, IsOk());
    ports = reserved->get();
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

std::optional<grpc_tls_version> demanded_version;

void RecordVersion(grpc_server_credentials* /*credentials*/,
                   grpc_tls_version version) {
  demanded_version = version;
}

TEST(TlsCredentialsTest, ServersDemandTls13) {
  TestCertificates ca("tls_demand");
  EXPECT_THAT(MakeCredentials(ca.Issue("task-0"), RecordVersion), IsOk());
  EXPECT_EQ(demanded_version, grpc_tls_version::TLS1_3);
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

TEST(TlsCredentialsTest, TheLinkedGrpcTakesTheDemand) {
  EXPECT_NE(FindMinTlsVersionSetter(), nullptr);
}

}  // namespace sockets_test
}  // namespace tutti
