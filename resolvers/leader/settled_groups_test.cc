#include "resolvers/leader/settled_groups.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "tutti/params.h"

namespace tutti {
namespace settled_groups_test {

constexpr GroupKey kGroup = 7;

std::shared_ptr<const CollGroupParams> GenerationOf(uint64_t generation) {
  auto group = std::make_shared<CollGroupParams>();
  group->key = kGroup;
  group->generation = generation;
  return group;
}

// Adds in the wrong order, as two threads may do.
TEST(SettledGroupsTest, AnEarlierGenerationDoesNotReplaceALaterOne) {
  SettledGroups settled("/job:worker/replica:0/task:0");
  SettledGroups::GroupPtr replaced;
  const auto later = settled.Add(GenerationOf(2), &replaced);
  EXPECT_EQ(settled.Add(GenerationOf(1), &replaced), nullptr);
  EXPECT_EQ(replaced, nullptr);
  EXPECT_EQ(settled.Find(kGroup), later);
  const auto latest = settled.Add(GenerationOf(3), &replaced);
  EXPECT_EQ(replaced, later);
  EXPECT_EQ(settled.Find(kGroup), latest);
  EXPECT_EQ(settled.num_groups(), 1u);
}

TEST(SettledGroupsTest,
     AFailedGenerationIsReturnedOnceAndForgottenByALaterOne) {
  SettledGroups settled("/job:worker/replica:0/task:0");
  settled.SetFailed(kGroup, 4);
  EXPECT_EQ(settled.BeginAgain(kGroup).failed_generation, 4u);
  EXPECT_EQ(settled.BeginAgain(kGroup).failed_generation, 0u);
  EXPECT_TRUE(settled.IsFormedAgain(kGroup));
  settled.SetFailed(kGroup, 5);
  SettledGroups::GroupPtr replaced;
  settled.Add(GenerationOf(6), &replaced);
  EXPECT_FALSE(settled.IsFormedAgain(kGroup));
  EXPECT_EQ(settled.BeginAgain(kGroup).failed_generation, 0u);
}

}  // namespace settled_groups_test
}  // namespace tutti
