#include "tools/base/environment_variables.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace environment_variables_test {

TEST(EnvironmentVariablesTest, AnEmptyOneIsNotSet) {
  unsetenv("TUTTI_TEST");
  EXPECT_EQ(EnvironmentVariable("TUTTI_TEST"), std::nullopt);
  setenv("TUTTI_TEST", "", 1);
  EXPECT_EQ(EnvironmentVariable("TUTTI_TEST"), std::nullopt);
  setenv("TUTTI_TEST", "value", 1);
  EXPECT_THAT(EnvironmentVariable("TUTTI_TEST"),
              ::testing::Optional(std::string("value")));
}

}  // namespace environment_variables_test
}  // namespace tutti
