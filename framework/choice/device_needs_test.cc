#include "framework/choice/device_needs.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace device_needs_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns `num_tasks` tasks of two devices. Each device has the library and a
// unit for itself.
CollGroupParams GroupOf(int num_tasks) {
  CollGroupParams group;
  group.device_type = "GPU";
  group.layout = std::make_shared<const GroupLayout>(
      GroupLayout::Uniform(num_tasks, /*devices_per_task=*/2));
  for (int rank = 0; rank < 2 * num_tasks; ++rank) {
    group.members.push_back(
        {.device = {.name = {"worker", 0, rank / 2, "GPU", rank % 2},
                    .libraries = {"Other", "Lib"},
                    .unit = std::string(1, static_cast<char>('a' + rank))}});
  }
  return group;
}

DeviceAttributes& Device(CollGroupParams& group, int rank) {
  return group.members[static_cast<size_t>(rank)].device;
}

TEST(DeviceNeedsTest, WhoNeedsNothingRunsOnAnyDevices) {
  CollGroupParams group = GroupOf(2);
  for (CollGroupMember& member : group.members) {
    member.device.libraries.clear();
    member.device.unit = "a";
  }
  EXPECT_THAT(WhyNotOn(group, {}), IsEmpty());
}

TEST(DeviceNeedsTest, EachMemberNeedsTheLibrary) {
  CollGroupParams group = GroupOf(2);
  const DeviceNeeds needs = {.library = "Lib"};
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  Device(group, 3).libraries = {"Other"};
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs Lib, which rank 3 (/job:worker/replica:0/task:1/device:GPU:1"
            ") does not have");
  Device(group, 1).libraries = {};
  Device(group, 2).libraries = {"lib"};
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs Lib, which rank 1 (/job:worker/replica:0/task:0/device:GPU:1"
            ") and 2 more do not have");
}

TEST(DeviceNeedsTest, UnitsAreShared) {
  CollGroupParams group = GroupOf(2);
  const DeviceNeeds needs = {.own_units = true};
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  Device(group, 3).unit = Device(group, 0).unit;
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs each member on a GPU of its own, but ranks 0 and 3 "
            "(/job:worker/replica:0/task:0/device:GPU:0 and "
            "/job:worker/replica:0/task:1/device:GPU:1) are on one");
}

TEST(DeviceNeedsTest, ADeviceThatNamesNoUnitSharesNone) {
  CollGroupParams group = GroupOf(2);
  for (CollGroupMember& member : group.members) member.device.unit.clear();
  EXPECT_THAT(WhyNotOn(group, {.own_units = true}), IsEmpty());
}

TEST(DeviceNeedsTest, TheFirstReachesAllByLinks) {
  CollGroupParams group = GroupOf(1);
  const DeviceNeeds needs = {.first_reaches_all = true};
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs links from rank 0 (/job:worker/replica:0/task:0/device:GPU:0"
            ") to all, but none leads to rank 1 "
            "(/job:worker/replica:0/task:0/device:GPU:1)");
  Device(group, 1).locality.links = {{.device_index = 0}};  // Wrong direction.
  EXPECT_THAT(WhyNotOn(group, needs), HasSubstr("none leads to rank 1"));
  Device(group, 0).locality.links = {{.device_index = 7}, {.device_index = 1}};
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
}

TEST(DeviceNeedsTest, TheFirstReachesWhatIsOnItsOwnUnit) {
  CollGroupParams group = GroupOf(2);
  const DeviceNeeds needs = {.first_reaches_all = true};
  for (CollGroupMember& member : group.members) member.device.unit = "a";
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  for (CollGroupMember& member : group.members) member.device.unit = "";
  EXPECT_THAT(WhyNotOn(group, needs), HasSubstr("none leads to rank 1"));
}

TEST(DeviceNeedsTest, LinksLeadToDevicesOfTheSameTask) {
  CollGroupParams group = GroupOf(2);
  Device(group, 0).locality.links = {{.device_index = 0}, {.device_index = 1}};
  EXPECT_THAT(WhyNotOn(group, {.first_reaches_all = true}),
              HasSubstr("none leads to rank 2 "));
}

TEST(DeviceNeedsTest, WithinTasksOtherTasksDoNotMatter) {
  CollGroupParams group = GroupOf(2);
  const DeviceNeeds needs = {
      .library = "Lib", .own_units = true, .within_tasks = true};
  Device(group, 2).unit = Device(group, 0).unit;
  Device(group, 3).unit = Device(group, 1).unit;
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  Device(group, 3).unit = Device(group, 2).unit;
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs each member of a task on a GPU of its own, but ranks 2 and "
            "3 (/job:worker/replica:0/task:1/device:GPU:0 and "
            "/job:worker/replica:0/task:1/device:GPU:1) are on one");
}

TEST(DeviceNeedsTest, WithinTasksWhoIsAloneThereNeedsNothing) {
  CollGroupParams group = GroupOf(1);
  group.members.push_back({.device = {.name = {"worker", 0, 1, "GPU", 0}}});
  group.layout =
      std::make_shared<const GroupLayout>(*GroupLayout::Create({0, 0, 1}));
  DeviceNeeds needs = {.library = "Lib", .within_tasks = true};
  EXPECT_THAT(WhyNotOn(group, needs), IsEmpty());
  needs.within_tasks = false;
  EXPECT_EQ(WhyNotOn(group, needs),
            "needs Lib, which rank 2 (/job:worker/replica:0/task:1/device:GPU:0"
            ") does not have");
}

}  // namespace device_needs_test
}  // namespace tutti
