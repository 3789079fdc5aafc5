#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/choice/delegate_cost.h"
#include "framework/choice/why_not.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace registry_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Nothing : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

std::shared_ptr<const CollectiveFactory> Factory(std::string summary = "") {
  return Implemented<Nothing>({.summary = std::move(summary),
                               .collectives = {CollectiveType::kAllReduce}});
}

TEST(RegistryTest, ADuplicateNameIsAlreadyExistsAndNamed) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory("first")), IsOk());
  EXPECT_THAT(registry.Register("Ring", Factory("second")),
              IsAlreadyExists("Ring"));
}

TEST(RegistryTest, TheFirstOfADuplicateNameStays) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory("first")), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory("second")), Not(IsOk()));
  const auto found = registry.Find("Ring");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)->traits().summary, "first");
}

TEST(RegistryTest, StatusKeepsTheFirstErrorOfAnyRegistration) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.status(), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  EXPECT_THAT(registry.status(), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), Not(IsOk()));
  ASSERT_THAT(registry.Register("", Factory()), Not(IsOk()));
  ASSERT_THAT(registry.Register("Tree", Factory()), IsOk());
  EXPECT_THAT(registry.status(), IsAlreadyExists("Ring"));
}

TEST(RegistryTest, AnEmptyNameIsInvalid) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("", Factory()), IsInvalidArgument("name"));
}

TEST(RegistryTest, NoFactoryIsInvalidAndNamed) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("Ring", nullptr), IsInvalidArgument("Ring"));
  EXPECT_THAT(registry.Find("Ring"), IsNotFound("Ring"));
}

TEST(RegistryTest, AFactoryOfNoCollectivesIsInvalidAndNamed) {
  CollectiveRegistry registry;
  EXPECT_THAT(
      registry.Register("Ring", Implemented<Nothing>({})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("Ring"), HasSubstr("without collectives"))));
}

TEST(RegistryTest, AnUnknownNameListsTheKnownOnes) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  ASSERT_THAT(registry.Register("Tree", Factory()), IsOk());
  EXPECT_THAT(registry.Find("Star"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"Star\""), HasSubstr("Ring, Tree"))));
}

TEST(RegistryTest, AnUnknownNameGetsTheNearestKnownOne) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("RingReduce", Factory()), IsOk());
  ASSERT_THAT(registry.RegisterAlias("RingReducer", "RingReduce"), IsOk());
  EXPECT_THAT(registry.Find("ringreduce").status().message(),
              HasSubstr("(did you mean RingReduce?)"));
  EXPECT_THAT(registry.Find("RingRedcuers").status().message(),
              HasSubstr("(did you mean RingReducer?)"));
  EXPECT_THAT(registry.Find("Tree").status().message(),
              Not(HasSubstr("did you mean")));
}

TEST(RegistryTest, AnAliasFindsWhatItStandsFor) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.RegisterAlias("RingReducer", "Ring"), IsOk());
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  EXPECT_EQ(*registry.Find("RingReducer"), *registry.Find("Ring"));
  EXPECT_EQ(registry.Resolve("RingReducer"), "Ring");
  EXPECT_EQ(registry.Resolve("Ring"), "Ring");
  EXPECT_EQ(registry.List().size(), 1u);
}

TEST(RegistryTest, AnAliasThatIsTakenIsRefused) {
  CollectiveRegistry registry;
  ASSERT_THAT(registry.Register("Ring", Factory()), IsOk());
  ASSERT_THAT(registry.RegisterAlias("Circle", "Ring"), IsOk());
  for (const char* taken : {"Ring", "Circle"}) {
    EXPECT_THAT(registry.RegisterAlias(taken, "Tree"), IsAlreadyExists(taken));
  }
  EXPECT_THAT(registry.Register("Circle", Factory()),
              IsAlreadyExists("Circle"));
}

class BareClass : public Nothing {
 public:
  static ImplementationTraits Traits() {
    return {.summary = "registered by its class",
            .collectives = {CollectiveType::kBarrier}};
  }
};

REGISTER_COLLECTIVE(RegisteredBareClass, BareClass);

TEST(RegistryTest, ABareClassIsRegisteredWithItsTraits) {
  const auto found = CollectiveRegistry::Global().Find("RegisteredBareClass");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)->traits().summary, "registered by its class");
  EXPECT_NE(dynamic_cast<BareClass*>((*found)->Create().get()), nullptr);
}

TEST(RegistryTest, ListsInTheOrderOfNames) {
  CollectiveRegistry registry;
  for (const char* name : {"Tree", "Ring", "Star"}) {
    ASSERT_THAT(registry.Register(name, Factory(name)), IsOk());
  }
  std::vector<std::string> names;
  for (const auto& entry : registry.List()) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.factory->traits().summary, entry.name);
  }
  EXPECT_THAT(names, ElementsAre("Ring", "Star", "Tree"));
}

TEST(RegistryTest, AFactoryMakesAnObjectOfItsClassEachTime) {
  const auto factory = Factory();
  const auto first = factory->Create();
  const auto second = factory->Create();
  EXPECT_NE(dynamic_cast<const Nothing*>(first.get()), nullptr);
  EXPECT_NE(first, second);
}

// Nothing here names registry_test_plugin.cc; the program only links it.
TEST(RegistryTest, LinkingALibraryIsEnoughToRegisterWhatItHas) {
  const auto found = CollectiveRegistry::Global().Find("LinkedPlugin");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)->traits().summary, "registered by linking alone");
  EXPECT_THAT(CollectiveRegistry::Global().status(), IsOk());
}

TEST(RegistryTest, ThreadsMayRegisterAndLookUpAtATime) {
  constexpr int kThreads = 4;
  constexpr int kNames = 50;
  CollectiveRegistry registry;
  std::vector<std::thread> threads;
  std::vector<int> num_registered(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&registry, &count = num_registered[thread]] {
      for (int i = 0; i < kNames; ++i) {
        const std::string name = absl::StrCat("Ring", i);
        if (registry.Register(name, Factory(name)).ok()) ++count;
        const auto found = registry.Find(name);
        ASSERT_THAT(found, IsOk());
        EXPECT_EQ((*found)->traits().summary, name);
        EXPECT_GE(registry.List().size(), static_cast<size_t>(i + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int total = 0;
  for (int count : num_registered) total += count;
  EXPECT_EQ(total, kNames);
  EXPECT_EQ(registry.List().size(), size_t{kNames});
  EXPECT_THAT(registry.status(), IsAlreadyExists("Ring"));
}

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

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Seconds(int num_tasks, int64_t bytes, bool one_process = false) {
  const GroupLayout layout =
      GroupLayout::Uniform(num_tasks, /*devices_per_task=*/1);
  return DelegateSeconds(
      {.layout = layout, .bytes = bytes, .one_process = one_process});
}

TEST(DelegateCostTest, IsInfiniteWithinOneProcess) {
  EXPECT_EQ(Seconds(1, 4), kInfinity);
  EXPECT_EQ(Seconds(4, 4, /*one_process=*/true), kInfinity);
}

TEST(DelegateCostTest, FewBytesCostLessThanOneMessage) {
  for (const int num_tasks : {2, 3, 8, 64}) {
    EXPECT_LT(Seconds(num_tasks, 4), CostModel().between.latency_seconds);
  }
}

TEST(DelegateCostTest, GrowsWithBytesAndTasks) {
  for (const int64_t bytes : {int64_t{4}, int64_t{1} << 20, int64_t{1} << 26}) {
    EXPECT_LT(Seconds(2, bytes), Seconds(2, 2 * bytes));
    EXPECT_LT(Seconds(4, bytes), Seconds(8, bytes));
  }
}

TEST(DelegateCostTest, BytesAboveTheCachesCostMoreAmongMoreThanTwo) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  EXPECT_GT(Seconds(4, kBytes), 4.5 * Seconds(4, kBytes / 4));
  EXPECT_LT(Seconds(2, kBytes), 4.5 * Seconds(2, kBytes / 4));
}

}  // namespace

}  // namespace registry_test
}  // namespace tutti
