#include "framework/execution.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace tutti {
namespace {

TEST(ExecutionTest, AllMembersShareOneObject) {
  Execution execution(InstanceId(), 1);
  std::vector<std::shared_ptr<int>> shared(4);
  std::vector<std::thread> members;
  for (auto& mine : shared) {
    members.emplace_back([&] { mine = execution.Shared<int>(); });
  }
  for (std::thread& member : members) member.join();
  for (const auto& mine : shared) EXPECT_EQ(mine, shared[0]);
  EXPECT_EQ(*shared[0], 0);
}

TEST(ExecutionTest, EachExecutionHasAnObjectOfItsOwn) {
  Execution first(InstanceId(), 1), second(InstanceId(), 2);
  EXPECT_NE(first.Shared<int>(), second.Shared<int>());
}

}  // namespace
}  // namespace tutti
