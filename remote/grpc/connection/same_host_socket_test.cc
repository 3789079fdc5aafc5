#include "remote/grpc/connection/same_host_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/peer_name.h"
#include "tutti/environment.h"

namespace tutti {
namespace same_host_socket_test {

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

}  // namespace same_host_socket_test
}  // namespace tutti
