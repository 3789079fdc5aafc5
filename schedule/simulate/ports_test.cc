#include "schedule/simulate/ports.h"

#include "gtest/gtest.h"

namespace tutti {
namespace ports_test {

TEST(PortsTest, WhatMayStartFirstPassesFirst) {
  Ports ports(/*num_classes=*/1, /*num_ports=*/2);
  ports.Add(0, 1, /*start=*/20, /*duration=*/5);
  ports.Add(0, 1, /*start=*/1, /*duration=*/3);
  ports.Add(0, 1, /*start=*/2, /*duration=*/4);
  EXPECT_EQ(ports.FreeAt(0, 1), 0);
  ports.Pass();
  EXPECT_EQ(ports.FreeAt(0, 1), 25);
}

TEST(PortsTest, WhatComesLaterPassesAfterWhatHasPassed) {
  Ports ports(1, 1);
  ports.Add(0, 0, 10, 5);
  ports.Pass();
  ports.Add(0, 0, 1, 2);
  ports.Add(0, 0, 0, 1);
  ports.Pass();
  EXPECT_EQ(ports.FreeAt(0, 0), 18);
  ports.Pass();
  EXPECT_EQ(ports.FreeAt(0, 0), 18);
}

TEST(PortsTest, PortsAndClassesDoNotWaitForEachOther) {
  Ports ports(/*num_classes=*/2, /*num_ports=*/3);
  for (const double start : {0, 1}) {
    for (const int port : {2, 0, 1}) {
      for (const int link : {1, 0}) ports.Add(link, port, start, 1 + link);
    }
  }
  ports.Pass();
  for (const int port : {0, 1, 2}) {
    EXPECT_EQ(ports.FreeAt(0, port), 2);
    EXPECT_EQ(ports.FreeAt(1, port), 4);
  }
}

}  // namespace ports_test
}  // namespace tutti
