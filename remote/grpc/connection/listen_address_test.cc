#include "remote/grpc/connection/listen_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/loopback_listeners.h"
#include "remote/grpc/connection/same_host_socket.h"
#include "tests/doubles/status_matchers.h"

namespace {

// Simulated support of IPv6.
enum class Ipv6 { kAsItIs, kAlone, kMissing };
Ipv6 ipv6 = Ipv6::kAsItIs;

}  // namespace

// Replaces the function of the C library.
extern "C" int socket(int domain, int type, int protocol) noexcept {
  if (domain == AF_INET6 && ipv6 == Ipv6::kMissing) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  const auto fd = static_cast<int>(syscall(SYS_socket, domain, type, protocol));
  const int yes = 1;
  if (fd >= 0 && domain == AF_INET6 && ipv6 == Ipv6::kAlone) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  }
  return fd;
}

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

TEST(ListenAddressTest, HostAndPortAreTold) {
  EXPECT_EQ(SplitAddress("host:7000").host, "host");
  EXPECT_EQ(SplitAddress("host:7000").port, "7000");
  EXPECT_EQ(SplitAddress("[::1]:7000").host, "::1");
  EXPECT_EQ(SplitAddress("[::1]:7000").port, "7000");
}

TEST(ListenAddressTest, LoopbackIsKnown) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) {
    const auto addresses = ResolveListenAddresses(host, "7000").value();
    EXPECT_TRUE(addresses.is_loopback) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1"}) {
    const auto addresses = ResolveListenAddresses(host, "7000").value();
    EXPECT_FALSE(addresses.is_loopback) << host;
  }
}

TEST(ListenAddressTest, EndpointsAreNumbers) {
  EXPECT_THAT(ResolveListenAddresses("127.0.0.1", "7000")->endpoints,
              ElementsAre("127.0.0.1:7000"));
  EXPECT_THAT(ResolveListenAddresses("::1", "7000")->endpoints,
              ElementsAre("[::1]:7000"));
}

TEST(ListenAddressTest, AHostThatIsNotIsAnError) {
  EXPECT_THAT(ResolveListenAddresses("no such host", "7000"),
              IsInvalidArgument("no such host:7000"));
}

TEST(ListenAddressTest, AnAddressOfAnotherMachineIsAnError) {
  EXPECT_THAT(ListenAt({"192.0.2.1:7000"}),
              IsUnavailable("cannot listen at 192.0.2.1:7000"));
}

TEST(ListenAddressTest, AKindOfAddressThatIsMissingIsLeftOut) {
  const auto listeners = ListenAt({"192.0.2.1:0", "127.0.0.1:0"}).value();
  EXPECT_EQ(listeners.size(), 1);
}

TEST(ListenAddressTest, SocketsSayWhereTheyListen) {
  const auto sockets = ListenAt({"127.0.0.1:0", "0.0.0.0:0"}).value();
  const FileDescriptor same_host =
      ListenOnSameHost(absl::StrCat("listen-address-test-", getpid()));
  const int first = sockets[0].get(), second = sockets[1].get();
  const auto loopback = AddressesOf({first, same_host.get()}).value();
  EXPECT_THAT(loopback.endpoints, ElementsAre(StartsWith("127.0.0.1:")));
  EXPECT_TRUE(loopback.is_loopback);
  const auto both = AddressesOf({first, second}).value();
  EXPECT_THAT(both.endpoints,
              ElementsAre(loopback.endpoints[0], StartsWith("0.0.0.0:")));
  EXPECT_FALSE(both.is_loopback);
}

TEST(ListenAddressTest, WhatDoesNotListenIsAnError) {
  const FileDescriptor silent(socket(AF_INET, SOCK_STREAM, 0));
  for (const int fd : {silent.get(), STDIN_FILENO, -1, 12345}) {
    EXPECT_THAT(AddressesOf({fd}),
                IsInvalidArgument(absl::StrCat("descriptor ", fd,
                                               " is no listening socket")));
  }
}

// Returns whether IPv4 can connect to the listener.
bool TakesIpv4(int listener) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size),
            0);
  sockaddr_in address = {.sin_family = AF_INET};
  address.sin_port = reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const FileDescriptor fd(socket(AF_INET, SOCK_STREAM, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)) == 0;
}

TEST(ListenAddressTest, LoopbackListenersListenAtTheirAddress) {
  const auto listeners = LoopbackListeners::Open().value();
  ASSERT_EQ(listeners.sockets.size(), 2u);
  EXPECT_TRUE(TakesIpv4(listeners.sockets[0].get()));
  EXPECT_THAT(ListenAt({listeners.address}), IsUnavailable("address in use"));
  EXPECT_TRUE(ConnectOnSameHost(listeners.address).value().is_set());
}

TEST(ListenAddressTest, AllAddressesAreThoseOfIpv4Too) {
  for (const Ipv6 kind : {Ipv6::kAsItIs, Ipv6::kAlone, Ipv6::kMissing}) {
    ipv6 = kind;
    const auto listeners = ListenAt({"[::]:0"});
    ipv6 = Ipv6::kAsItIs;
    ASSERT_THAT(listeners, IsOk());
    EXPECT_TRUE(TakesIpv4((*listeners)[0].get())) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace tutti
