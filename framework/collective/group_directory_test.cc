#include "framework/collective/group_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace group_directory_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::shared_ptr<const CollGroupParams> Group(GroupKey key,
                                             uint64_t generation) {
  auto group = std::make_shared<CollGroupParams>();
  group->key = key;
  group->generation = generation;
  group->cancellation = std::make_shared<Cancellation>();
  return group;
}

const absl::Status kLost = absl::UnavailableError("task 3 was lost");

TEST(GroupDirectoryTest, FindsWhatLives) {
  GroupDirectory directory;
  const auto group = Group(1, 4);
  directory.Add(group);
  EXPECT_EQ(*directory.Find(1, 4), group);
  EXPECT_THAT(directory.Living(), ElementsAre(group));
  EXPECT_EQ(directory.EndedGeneration(1), 0);
}

TEST(GroupDirectoryTest, DoesNotKnowWhatComesLater) {
  GroupDirectory directory;
  EXPECT_THAT(directory.Find(1, 4),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("generation 4 of group 1 is not known")));
  directory.Add(Group(1, 4));
  EXPECT_THAT(directory.Find(1, 5),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("generation 5")));
  EXPECT_THAT(directory.Find(2, 4),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("group 2")));
}

TEST(GroupDirectoryTest, SaysWhyAGenerationHasEnded) {
  GroupDirectory directory;
  const auto group = Group(1, 4);
  directory.Add(group);
  EXPECT_TRUE(directory.End(1, 4, kLost));
  EXPECT_FALSE(directory.End(1, 4, absl::UnknownError("later")));
  EXPECT_EQ(group->cancellation->status(), kLost);
  for (const uint64_t generation : {3, 4}) {
    EXPECT_THAT(
        directory.Find(1, generation),
        StatusIs(kLost.code(), HasSubstr("has ended: task 3 was lost")));
  }
  EXPECT_EQ(directory.EndedGeneration(1), 4);
  EXPECT_TRUE(directory.Living().empty());
}

TEST(GroupDirectoryTest, WhatEndedBeforeItWasKnownStaysEnded) {
  GroupDirectory directory;
  EXPECT_TRUE(directory.End(1, 4, kLost));
  directory.Add(Group(1, 4));
  directory.Add(Group(1, 3));
  EXPECT_TRUE(directory.Living().empty());
  const auto next = Group(1, 5);
  directory.Add(next);
  EXPECT_EQ(*directory.Find(1, 5), next);
}

TEST(GroupDirectoryTest, ANewGenerationEndsTheOldOne) {
  GroupDirectory directory;
  const auto old = Group(1, 4);
  directory.Add(old);
  directory.Add(Group(1, 6));
  EXPECT_THAT(old->cancellation->status(),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("formed again, as generation 6")));
  EXPECT_THAT(directory.Find(1, 4),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("formed again")));
  EXPECT_FALSE(directory.End(1, 4, kLost));
  EXPECT_TRUE(directory.Find(1, 6).ok());
}

TEST(GroupDirectoryTest, EndingAnOldGenerationLeavesTheLivingOne) {
  GroupDirectory directory;
  const auto group = Group(1, 6);
  directory.Add(group);
  directory.End(1, 5, kLost);
  EXPECT_EQ(*directory.Find(1, 6), group);
  EXPECT_FALSE(group->cancellation->cancelled());
}

TEST(GroupDirectoryTest, TellsTheListenerOfEachChange) {
  GroupDirectory directory;
  std::vector<std::pair<GroupKey, uint64_t>> changes;
  directory.SetListener([&](GroupKey key, uint64_t generation) {
    directory.Living();  // Would block if a lock was held.
    changes.emplace_back(key, generation);
  });
  directory.Add(Group(1, 4));
  directory.Add(Group(1, 4));
  directory.End(1, 4, kLost);
  directory.End(1, 3, kLost);
  EXPECT_THAT(changes, ElementsAre(Pair(1, 4), Pair(1, 4)));
}

}  // namespace group_directory_test
}  // namespace tutti
