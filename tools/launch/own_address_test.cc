#include "tools/launch/own_address.h"

#include <gtest/gtest.h>

namespace tutti {
namespace own_address_test {

TEST(OwnAddressTest, AddressesOfThisMachine) {
  EXPECT_FALSE(IsAddressOfAnotherMachine("127.0.0.1"));
  EXPECT_FALSE(IsAddressOfAnotherMachine("0.0.0.0"));
}

TEST(OwnAddressTest, AddressesOfOthers) {
  // Reserved for documents.
  EXPECT_TRUE(IsAddressOfAnotherMachine("192.0.2.1"));
}

TEST(OwnAddressTest, NamesMayBeOfThisMachine) {
  EXPECT_FALSE(IsAddressOfAnotherMachine("host1"));
  EXPECT_FALSE(IsAddressOfAnotherMachine(""));
}

}  // namespace own_address_test
}  // namespace tutti
