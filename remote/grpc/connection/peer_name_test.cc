#include "remote/grpc/connection/peer_name.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "remote/grpc/connection/file_descriptor.h"

namespace tutti {
namespace peer_name_test {

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

}  // namespace peer_name_test
}  // namespace tutti
