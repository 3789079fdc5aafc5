#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tutti/implementation.h"

namespace tutti {
namespace execution_test {

struct Shared {
  explicit Shared(Cancellation& cancellation) : cancellation(cancellation) {}
  Cancellation& cancellation;
};

TEST(ExecutionTest, AllMembersShareOneObject) {
  Execution execution(InstanceId(), 1);
  std::vector<Shared*> shared(4);
  std::vector<std::thread> members;
  for (Shared*& mine : shared) {
    members.emplace_back([&] { mine = &execution.Shared<Shared>(); });
  }
  for (std::thread& member : members) member.join();
  for (const Shared* mine : shared) EXPECT_EQ(mine, shared[0]);
  EXPECT_EQ(&shared[0]->cancellation, &execution.cancellation);
}

TEST(ExecutionTest, EachExecutionHasAnObjectOfItsOwn) {
  Execution first(InstanceId(), 1), second(InstanceId(), 2);
  EXPECT_NE(&first.Shared<Shared>(), &second.Shared<Shared>());
}

}  // namespace execution_test
}  // namespace tutti
