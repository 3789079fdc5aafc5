#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doubles/status_matchers.h"
#include "tutti/params.h"

namespace tutti {
namespace group_layout_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(GroupLayoutTest, GroupsRanksByTaskAndTasksByTheirLowestRank) {
  const auto layout = GroupLayout::Create({7, 3, 7, 9, 3});
  ASSERT_THAT(layout, IsOk());
  EXPECT_EQ(layout->size(), 5);
  EXPECT_EQ(layout->num_tasks(), 3);
  EXPECT_THAT(layout->tasks(), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4),
                                           ElementsAre(3)));
  for (int task = 0; task < layout->num_tasks(); ++task) {
    for (int rank : layout->tasks()[task]) {
      EXPECT_EQ(layout->task_of(rank), task);
    }
  }
}

TEST(GroupLayoutTest, NoRankIsInvalid) {
  EXPECT_THAT(GroupLayout::Create({}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("at least one rank")));
}

TEST(GroupLayoutTest, UniformFillsOneTaskAfterTheOther) {
  const GroupLayout layout = GroupLayout::Uniform(2, 3);
  EXPECT_THAT(layout.tasks(),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
}

TEST(GroupLayoutTest, UniformCountsValuesBelowOneAsOne) {
  EXPECT_EQ(GroupLayout::Uniform(0, -2), GroupLayout::Uniform(1, 1));
  EXPECT_EQ(GroupLayout::Uniform(-1, 3).size(), 3);
}

TEST(GroupLayoutTest, OnlyWhoSharesATaskMatters) {
  EXPECT_EQ(*GroupLayout::Create({4, 4, 8}), *GroupLayout::Create({1, 1, 0}));
  EXPECT_FALSE(*GroupLayout::Create({0, 0, 1}) ==
               *GroupLayout::Create({0, 1, 1}));
}

TEST(GroupLayoutTest, IsWrittenAsTasksTimesDevicesOrAsASum) {
  EXPECT_EQ(GroupLayout::Uniform(4, 2).ToString(), "4x2");
  EXPECT_EQ(GroupLayout::Uniform(1, 1).ToString(), "1x1");
  EXPECT_EQ(GroupLayout::Create({0, 0, 0, 1, 2, 2})->ToString(), "3+1+2");
}

}  // namespace group_layout_test
}  // namespace tutti
