#include "schedule/engine/schedule_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "framework/collective/params_test_data.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/schedule.h"

namespace tutti {
namespace schedule_cache_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kSize = 4;

std::atomic<int> num_plans{0};

// Plans `root` steps.
Schedule CountedPlan(const PlanRequest& request) {
  ++num_plans;
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  for (int i = 0; i < request.root; ++i) lane.Copy(Data(0), Input(0));
  return builder.Build();
}

CollInstanceParams Instance() {
  return {.key = 1,
          .type = CollectiveType::kBroadcast,
          .shape = ShapeOf({8}),
          .root = 1,
          .impl_details = {.implementation = "Counted"}};
}

class ScheduleCacheTest : public testing::Test {
 protected:
  ScheduleCacheTest() { num_plans = 0; }

  std::shared_ptr<const CompiledSchedule> Get(
      const CollInstanceParams& instance, int rank = 1, bool in_place = false) {
    return cache_.Get(algorithm_, *ParamsOf(instance, group_, rank), in_place)
        .value();
  }

  const std::shared_ptr<const Algorithm> algorithm_ =
      std::make_shared<const Algorithm>(Algorithm{.plan = CountedPlan});
  const std::shared_ptr<const CollGroupParams> group_ = GroupOf(kSize);
  ScheduleCache cache_;
};

TEST_F(ScheduleCacheTest, PlansOnceForInstancesOfOneKind) {
  CollInstanceParams instance = Instance();
  const auto first = Get(instance);
  EXPECT_EQ(num_plans, 1);
  instance.key = 2;
  EXPECT_EQ(Get(instance), first);
  instance.shape = ShapeOf({1001, 3});
  EXPECT_EQ(Get(instance), first);
  instance.dtype = DType::kFloat16;
  EXPECT_EQ(Get(instance), first);
  instance.merge_op = ReductionKind::kMax;
  EXPECT_EQ(Get(instance), first);
  EXPECT_EQ(num_plans, 1);
}

TEST_F(ScheduleCacheTest, PlansAnewForAllThatAPlanMayDependOn) {
  std::vector<std::shared_ptr<const CompiledSchedule>> schedules;
  schedules.push_back(Get(Instance()));
  schedules.push_back(Get(Instance(), /*rank=*/1, /*in_place=*/true));
  CollInstanceParams reduce = Instance();
  reduce.type = CollectiveType::kReduce;
  schedules.push_back(Get(reduce));
  CollInstanceParams divided = Instance();
  divided.impl_details.subdiv_offsets = {0, -1};
  schedules.push_back(Get(divided));
  CollInstanceParams permute = Instance();
  permute.type = CollectiveType::kPermute;
  permute.permutation = {0, 1, 2, 3};
  schedules.push_back(Get(permute));
  permute.permutation = {1, 0, 2, 3};
  schedules.push_back(Get(permute));
  permute.root = 2;
  schedules.push_back(Get(permute));
  schedules.push_back(Get(permute, /*rank=*/2));
  EXPECT_EQ(num_plans, static_cast<int>(schedules.size()));
  for (size_t i = 0; i < schedules.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(schedules[i], schedules[j]);
  }
}

TEST_F(ScheduleCacheTest, AlgorithmsAreKeptApart) {
  const auto other =
      std::make_shared<const Algorithm>(Algorithm{.plan = CountedPlan});
  const auto params = ParamsOf(Instance(), group_, 1);
  ASSERT_THAT(cache_.Get(algorithm_, *params, false), IsOk());
  ASSERT_THAT(cache_.Get(other, *params, false), IsOk());
  EXPECT_EQ(num_plans, 2);
}

Schedule PlanOfTwoChunks(const PlanRequest&) {
  return ScheduleBuilder(/*num_chunks=*/2).Build();
}

TEST_F(ScheduleCacheTest, ANumberOfChunksThatDoesNotFitIsInvalidAndShown) {
  const auto algorithm =
      std::make_shared<const Algorithm>(Algorithm{.plan = PlanOfTwoChunks});
  CollInstanceParams gather = Instance();
  gather.type = CollectiveType::kAllGather;
  EXPECT_THAT(
      cache_.Get(algorithm, *ParamsOf(gather, group_, 1), false),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("the plan of Counted"),
                     HasSubstr("all_gather among 4 ranks in 2 chunks"))));
}

Schedule PlanForNobody(const PlanRequest&) {
  ++num_plans;
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().Send(/*peer=*/99, /*tag=*/0, Input(0));
  return builder.Build();
}

TEST_F(ScheduleCacheTest, AnInvalidPlanIsAnErrorEachTime) {
  const auto algorithm =
      std::make_shared<const Algorithm>(Algorithm{.plan = PlanForNobody});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(cache_.Get(algorithm, *ParamsOf(Instance(), group_, 1), false),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("send input[0] to 99")));
  }
}

// An instance whose plan has `num_steps` steps.
CollInstanceParams InstanceOfSteps(int num_steps) {
  CollInstanceParams instance = Instance();
  instance.type = CollectiveType::kAllReduce;  // All-reduces ignore the root.
  instance.root = num_steps;
  return instance;
}

TEST_F(ScheduleCacheTest, HoldsNoMoreStepsThanItMay) {
  ScheduleCache cache(/*max_numbers=*/100);
  std::vector<std::weak_ptr<const CompiledSchedule>> schedules;
  for (int i = 0; i < 20; ++i) {
    const auto params = ParamsOf(InstanceOfSteps(30 + i), group_, 1);
    schedules.push_back(cache.Get(algorithm_, *params, false).value());
    size_t num_ops = 0;
    for (const auto& weak : schedules) {
      const auto schedule = weak.lock();
      if (schedule != nullptr) num_ops += schedule->ops().size();
    }
    EXPECT_LE(num_ops, 100u);
    EXPECT_FALSE(schedules.back().expired());
  }
}

TEST_F(ScheduleCacheTest, CountsTheNumbersOfARequestToo) {
  ScheduleCache cache(/*max_numbers=*/100);
  CollInstanceParams instance = InstanceOfSteps(0);
  instance.impl_details.subdiv_offsets.resize(20);
  std::vector<std::weak_ptr<const CompiledSchedule>> schedules;
  for (int i = 0; i < 20; ++i) {
    instance.impl_details.subdiv_offsets[0] = i;
    schedules.push_back(
        cache.Get(algorithm_, *ParamsOf(instance, group_, 1), false).value());
    // Each schedule counts as 36.
    EXPECT_LE(std::count_if(schedules.begin(), schedules.end(),
                            [](const auto& weak) { return !weak.expired(); }),
              2);
  }
}

TEST_F(ScheduleCacheTest, ForgetsWhatWasUsedLongestAgo) {
  ScheduleCache cache(/*max_numbers=*/100);
  const auto get = [&](int num_steps) {
    const auto params = ParamsOf(InstanceOfSteps(num_steps), group_, 1);
    ASSERT_THAT(cache.Get(algorithm_, *params, false), IsOk());
  };
  get(1);
  get(2);
  get(3);
  get(4);
  get(1);
  EXPECT_EQ(num_plans, 4);
  get(20);  // Drops 2 and 3.
  get(1);
  get(4);
  EXPECT_EQ(num_plans, 5);
  get(2);
  EXPECT_EQ(num_plans, 6);
}

TEST_F(ScheduleCacheTest, WhatIsInUseOutlivesTheCache) {
  auto cache = std::make_unique<ScheduleCache>(/*max_numbers=*/100);
  const auto params = ParamsOf(InstanceOfSteps(80), group_, 1);
  const auto in_use = cache->Get(algorithm_, *params, false).value();
  const auto others = ParamsOf(InstanceOfSteps(90), group_, 1);
  ASSERT_THAT(cache->Get(algorithm_, *others, false), IsOk());
  EXPECT_EQ(in_use->ops().size(), 80u);
  EXPECT_NE(cache->Get(algorithm_, *params, false).value(), in_use);
  cache.reset();
  EXPECT_EQ(in_use->ops().size(), 80u);
}

TEST_F(ScheduleCacheTest, ThreadsMayAskAtATime) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const int num_steps = i % 10;
        const auto params =
            ParamsOf(InstanceOfSteps(num_steps), group_, i % kSize);
        const auto schedule = cache_.Get(algorithm_, *params, false);
        ASSERT_THAT(schedule, IsOk());
        EXPECT_EQ((*schedule)->ops().size(), static_cast<size_t>(num_steps));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int planned = num_plans;
  EXPECT_EQ(Get(InstanceOfSteps(7), /*rank=*/3)->ops().size(), 7u);
  EXPECT_EQ(num_plans, planned);
}

}  // namespace schedule_cache_test
}  // namespace tutti
