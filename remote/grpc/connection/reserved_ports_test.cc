#include "remote/grpc/connection/reserved_ports.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/listen_address.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace reserved_ports_test {

using testing::Contains;
using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::ResultOf;

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
    EXPECT_THAT(ListenAt(endpoints), StatusIs(absl::StatusCode::kUnavailable,
                                              HasSubstr("address in use")));
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
  EXPECT_THAT(reserved.status(), StatusIs(absl::StatusCode::kResourceExhausted,
                                          HasSubstr("cannot find free ports")));
}

}  // namespace reserved_ports_test
}  // namespace tutti
