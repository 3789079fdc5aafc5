#include "remote/grpc/connection/reserved_ports.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
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

using testing::Each;
using testing::Gt;
using testing::HasSubstr;

// Returns 0 or an errno.
int ConnectTo(int port) {
  const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  const int result =
      connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to));
  return result == 0 ? 0 : errno;
}

// Many ports: among the 28,000 that Linux gives, so many would hardly all
// differ by chance.
TEST(ReservedPortsTest, NobodyElseIsGivenThem) {
  constexpr int kNumPorts = 400;
  const ReservedPorts some(kNumPorts), others(kNumPorts);
  EXPECT_THAT(some.get(), Each(Gt(0)));
  EXPECT_THAT(others.get(), Each(Gt(0)));
  std::set<int> all(some.get().begin(), some.get().end());
  all.insert(others.get().begin(), others.get().end());
  EXPECT_EQ(all.size(), 2 * kNumPorts);
}

TEST(ReservedPortsTest, OneAtATimeListensThereAgainAndAgain) {
  const ReservedPorts ports(1);
  const int port = ports.get()[0];
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

}  // namespace reserved_ports_test
}  // namespace tutti
