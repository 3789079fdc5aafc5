#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "framework/collective/params_test_data.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"

namespace tutti {
namespace devices_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<Device> Cpu(int index) {
  return std::make_unique<CpuDevice>(
      DeviceAttributes{.name = {"worker", 0, 0, "CPU", index}});
}

std::vector<std::string> NamesOf(const DeviceManager& manager) {
  std::vector<std::string> names;
  for (const Device* device : manager.devices()) {
    names.push_back(device->full_name());
  }
  return names;
}

class DeviceManagerTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<DeviceManager>> CreateCpu(
      int num_tasks, int devices_per_task) {
    return DeviceManager::CreateCpu(num_tasks, devices_per_task,
                                    environment_.get().random);
  }

  SimulatedEnvironment environment_{/*seed=*/1};
};

TEST_F(DeviceManagerTest, FindsItsDevicesByName) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Cpu(1));
  devices.push_back(Cpu(0));
  const Device* const first = devices[0].get();
  const auto manager = DeviceManager::Create(std::move(devices));
  ASSERT_THAT(manager, IsOk());
  const auto found =
      (*manager)->Find("/job:worker/replica:0/task:0/device:CPU:1");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(*found, first);
}

TEST_F(DeviceManagerTest, KeepsTheOrderInWhichItWasGivenThem) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Cpu(1));
  devices.push_back(Cpu(0));
  const auto manager = DeviceManager::Create(std::move(devices));
  ASSERT_THAT(manager, IsOk());
  EXPECT_THAT(NamesOf(**manager),
              ElementsAre("/job:worker/replica:0/task:0/device:CPU:1",
                          "/job:worker/replica:0/task:0/device:CPU:0"));
}

TEST_F(DeviceManagerTest, NoDeviceIsInvalid) {
  EXPECT_THAT(DeviceManager::Create({}), IsInvalidArgument("needs a device"));
}

TEST_F(DeviceManagerTest, ANullDeviceIsInvalidAndItsPlaceShown) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Cpu(0));
  devices.push_back(nullptr);
  EXPECT_THAT(DeviceManager::Create(std::move(devices)),
              IsInvalidArgument("device 1 of 2"));
}

TEST_F(DeviceManagerTest, TwoDevicesOfOneNameAreAlreadyExistsAndNamed) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Cpu(0));
  devices.push_back(Cpu(0));
  EXPECT_THAT(DeviceManager::Create(std::move(devices)),
              IsAlreadyExists("/job:worker/replica:0/task:0/device:CPU:0"));
}

TEST_F(DeviceManagerTest, AnUnknownNameIsNotFoundAndNamesSomeOfTheKnown) {
  const auto manager = CreateCpu(2, 16);
  ASSERT_THAT(manager, IsOk());
  EXPECT_THAT((*manager)->Find("CPU:0"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"CPU:0\""), HasSubstr("has 32"),
                             HasSubstr("/task:0/device:CPU:7, ..."),
                             Not(HasSubstr("CPU:8")))));
}

TEST_F(DeviceManagerTest, FewKnownDevicesAreAllNamed) {
  const auto manager = CreateCpu(1, 2);
  ASSERT_THAT(manager, IsOk());
  EXPECT_THAT((*manager)->Find("x"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("CPU:0"), HasSubstr("CPU:1"),
                             Not(HasSubstr("...")))));
}

TEST_F(DeviceManagerTest, MakesTheCpuDevicesOfEachTask) {
  const auto manager = CreateCpu(2, 2);
  ASSERT_THAT(manager, IsOk());
  EXPECT_THAT(NamesOf(**manager),
              ElementsAre("/job:localhost/replica:0/task:0/device:CPU:0",
                          "/job:localhost/replica:0/task:0/device:CPU:1",
                          "/job:localhost/replica:0/task:1/device:CPU:0",
                          "/job:localhost/replica:0/task:1/device:CPU:1"));
  const auto& devices = (*manager)->devices();
  EXPECT_EQ(devices[0]->attributes().incarnation,
            devices[1]->attributes().incarnation);
  EXPECT_NE(devices[0]->attributes().incarnation,
            devices[2]->attributes().incarnation);
}

TEST_F(DeviceManagerTest, ACountBelowOneIsInvalidAndShown) {
  EXPECT_THAT(CreateCpu(0, 4), IsInvalidArgument("0 tasks with 4 devices"));
  EXPECT_THAT(CreateCpu(2, -1), IsInvalidArgument("2 tasks with -1 devices"));
}

TEST_F(DeviceManagerTest, NoSourceOfIncarnationsIsInvalid) {
  EXPECT_THAT(DeviceManager::CreateCpu(1, 1, /*random=*/nullptr),
              IsInvalidArgument("random"));
}

TEST_F(DeviceManagerTest, ACpuDeviceAllocatesHostMemory) {
  const auto manager = CreateCpu(1, 1);
  ASSERT_THAT(manager, IsOk());
  const auto tensor =
      (*manager)->devices()[0]->Allocate(DType::kInt32, ShapeOf({2, 3}));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->size_bytes(), 24u);
}

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

}  // namespace devices_test
}  // namespace tutti
