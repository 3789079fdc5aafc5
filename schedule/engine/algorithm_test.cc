#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "framework/collective/params_test_data.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace algorithm_test {

TEST(AlgorithmTest, WithoutAPlanFunctionCannotBeRegistered) {
  CollectiveRegistry registry;
  EXPECT_THAT(registry.Register("Planless", Scheduled({})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("Planless")));
}

TEST(AlgorithmTest, IsFoundBehindItsFactory) {
  const auto factory = Scheduled({.plan = [](const PlanRequest&) {
    return ScheduleBuilder(/*num_chunks=*/1).Build();
  }});
  ASSERT_NE(AlgorithmOf(*factory), nullptr);
  EXPECT_NE(AlgorithmOf(*factory)->plan, nullptr);
}

// Hook that the plan function calls.
void (*while_planning)() = nullptr;
CollectiveImplementationInterface* implementation_in_use = nullptr;
const CollectiveContext* context_in_use = nullptr;

TEST(AlgorithmTest, PlansWithNoLockHeld) {
  const auto factory = Scheduled({.plan = [](const PlanRequest&) {
    if (while_planning != nullptr) while_planning();
    return ScheduleBuilder(/*num_chunks=*/1).Build();
  }});
  const auto implementation = factory->Create();
  const auto params = ParamsOf({.shape = ShapeOf({4})}, /*group_size=*/2,
                               /*rank=*/0);
  CpuDevice device({.name = {"localhost", 0, 0, "CPU", 0}});
  CollectiveContext context;
  context.params = params.get();
  context.device = &device;
  implementation_in_use = implementation.get();
  context_in_use = &context;
  while_planning = [] {
    while_planning = nullptr;
    CollectiveContext other;
    other.params = context_in_use->params;
    other.device = context_in_use->device;
    EXPECT_THAT(implementation_in_use->InitializeCollectiveContext(&other),
                IsOk());
    EXPECT_NE(other.implementation_state, nullptr);
  };
  ASSERT_THAT(implementation->InitializeCollectiveContext(&context), IsOk());
  // The runner that was made inside the plan stays.
  CollectiveContext later;
  later.params = context.params;
  later.device = context.device;
  ASSERT_THAT(implementation->InitializeCollectiveContext(&later), IsOk());
  EXPECT_EQ(later.implementation_state, context.implementation_state);
}

}  // namespace algorithm_test
}  // namespace tutti
