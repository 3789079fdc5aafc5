#include "remote/grpc/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/status_matchers.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ListenAddressTest, HostAndPortAreTold) {
  EXPECT_EQ(SplitAddress("host:7000").host, "host");
  EXPECT_EQ(SplitAddress("host:7000").port, "7000");
  EXPECT_EQ(SplitAddress("[::1]:7000").host, "::1");
  EXPECT_EQ(SplitAddress("[::1]:7000").port, "7000");
}

TEST(ListenAddressTest, LoopbackIsKnown) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) {
    const auto addresses = ResolveListenAddresses(host, "7000");
    ASSERT_THAT(addresses, IsOk());
    EXPECT_TRUE(addresses->is_loopback) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1"}) {
    const auto addresses = ResolveListenAddresses(host, "7000");
    ASSERT_THAT(addresses, IsOk());
    EXPECT_FALSE(addresses->is_loopback) << host;
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
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no such host:7000")));
}

TEST(ListenAddressTest, AnAddressOfAnotherMachineIsAnError) {
  EXPECT_THAT(ListenAt({"192.0.2.1:7000"}),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("cannot listen at 192.0.2.1:7000")));
}

TEST(ListenAddressTest, AKindOfAddressThatIsMissingIsLeftOut) {
  const auto listeners = ListenAt({"192.0.2.1:0", "127.0.0.1:0"});
  ASSERT_THAT(listeners, IsOk());
  EXPECT_EQ(listeners->size(), 1);
}

}  // namespace
}  // namespace tutti
