#include "framework/collective/group_resources.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace tutti {
namespace group_resources_test {

struct Cache {
  std::atomic<int> num_uses{0};
};
struct Communicator {
  int id = 7;
};

TEST(GroupResourcesTest, MakesOneObjectOfEachType) {
  GroupResources resources;
  const auto cache = resources.GetOrCreate<Cache>();
  const auto communicator = resources.GetOrCreate<Communicator>();
  EXPECT_EQ(communicator->id, 7);
  communicator->id = 8;
  EXPECT_EQ(resources.GetOrCreate<Cache>(), cache);
  EXPECT_EQ(resources.GetOrCreate<Communicator>()->id, 8);
}

TEST(GroupResourcesTest, GroupsShareNothing) {
  GroupResources one;
  GroupResources other;
  EXPECT_NE(one.GetOrCreate<Cache>(), other.GetOrCreate<Cache>());
}

TEST(GroupResourcesTest, TheObjectsEndWithTheGroupAndItsLastUser) {
  std::weak_ptr<Cache> cache;
  std::shared_ptr<Communicator> in_use;
  {
    GroupResources resources;
    cache = resources.GetOrCreate<Cache>();
    in_use = resources.GetOrCreate<Communicator>();
    EXPECT_FALSE(cache.expired());
  }
  EXPECT_TRUE(cache.expired());
  EXPECT_EQ(in_use->id, 7);
}

GroupResources* resources_in_use = nullptr;
struct CommunicatorWithCache {
  std::shared_ptr<Cache> cache = resources_in_use->GetOrCreate<Cache>();
};

TEST(GroupResourcesTest, AnObjectMayUseAnotherWhileItIsMade) {
  GroupResources resources;
  resources_in_use = &resources;
  EXPECT_EQ(resources.GetOrCreate<CommunicatorWithCache>()->cache,
            resources.GetOrCreate<Cache>());
}

TEST(GroupResourcesTest, ThreadsGetTheSameObject) {
  GroupResources resources;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&resources] { ++resources.GetOrCreate<Cache>()->num_uses; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(resources.GetOrCreate<Cache>()->num_uses, 4);
}

}  // namespace group_resources_test
}  // namespace tutti
