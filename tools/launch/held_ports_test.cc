#include "tools/launch/held_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <optional>
#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/unique_fd.h"

namespace tutti {
namespace held_ports_test {

bool CanListenAt(int port) {
  const UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return bind(server.get(), reinterpret_cast<sockaddr*>(&address),
              sizeof(address)) == 0 &&
         listen(server.get(), 1) == 0;
}

TEST(HeldPortsTest, NobodyElseGetsThemUntilTheyAreLetGo) {
  auto created = HeldPorts::Create(20);
  ASSERT_THAT(created, IsOk());
  std::optional<HeldPorts> held = *std::move(created);
  const std::vector<int> ports = held->ports();
  EXPECT_EQ(std::set<int>(ports.begin(), ports.end()).size(), 20);
  for (int port : ports) EXPECT_FALSE(CanListenAt(port)) << port;
  held.reset();
  // Another process may have taken some of the ports meanwhile.
  int num_free = 0;
  for (int port : ports) num_free += CanListenAt(port) ? 1 : 0;
  EXPECT_GT(num_free, 0);
}

TEST(HeldPortsTest, WhatTheSystemRefusesIsAnError) {
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit few = old;
  few.rlim_cur = 10;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto held = HeldPorts::Create(20);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_THAT(held.status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr("cannot find free ports")));
}

}  // namespace held_ports_test
}  // namespace tutti
