#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"

namespace tutti {
namespace device_name_test {

using testing::AllOf;
using testing::HasSubstr;

TEST(DeviceNameTest, ParsesAllParts) {
  const auto name =
      DeviceName::Parse("/job:worker/replica:1/task:23/device:GPU:4");
  ASSERT_THAT(name, IsOk());
  EXPECT_EQ(name->job, "worker");
  EXPECT_EQ(name->replica, 1);
  EXPECT_EQ(name->task, 23);
  EXPECT_EQ(name->type, "GPU");
  EXPECT_EQ(name->index, 4);
}

TEST(DeviceNameTest, ToStringIsTheInverseOfParse) {
  const std::string text = "/job:worker/replica:0/task:3/device:CPU:1";
  const auto name = DeviceName::Parse(text);
  ASSERT_THAT(name, IsOk());
  EXPECT_EQ(name->ToString(), text);
  EXPECT_EQ(*name, (DeviceName{"worker", 0, 3, "CPU", 1}));
}

TEST(DeviceNameTest, TheTaskIsTheNameWithoutTheDevice) {
  EXPECT_EQ((DeviceName{"worker", 2, 3, "CPU", 1}).TaskName(),
            "/job:worker/replica:2/task:3");
}

class MalformedDeviceNameTest : public testing::TestWithParam<const char*> {};

TEST_P(MalformedDeviceNameTest, IsInvalidAndShownWithTheFormWanted) {
  EXPECT_THAT(
      DeviceName::Parse(GetParam()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr('"' + std::string(GetParam()) + '"'),
                     HasSubstr("/job:worker/replica:0/task:3/device:CPU:1"))));
}

INSTANTIATE_TEST_SUITE_P(
    Names, MalformedDeviceNameTest,
    testing::Values("", "CPU:0", "/job:/replica:0/task:0/device:CPU:0",
                    "job:a/replica:0/task:0/device:CPU:0",
                    "/job:a/replica:0/task:0",
                    "/job:a/replica:0/task:0/device:CPU",
                    "/job:a/replica:0/task:0/device::0",
                    "/job:a/replica:0/task:0/device:CPU:",
                    "/job:a/replica:0/task:0/device:CPU:0:1",
                    "/job:a/replica:0/task:0/device:CPU:0/",
                    "/job:a/task:0/replica:0/device:CPU:0",
                    "/job:a/replica:-1/task:0/device:CPU:0",
                    "/job:a/replica:0/task:x/device:CPU:0",
                    "/job:a/replica:0/task:/device:CPU:0",
                    "/job:a/replica:0/task:99999999999/device:CPU:0",
                    "/job:a/b/replica:0/task:0/device:CPU:0"));

}  // namespace device_name_test
}  // namespace tutti
