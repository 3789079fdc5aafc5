#include "bench/gpu/suite_group.h"

#include <cstdint>

#include "absl/status/status.h"
#include "bench/gpu/simulated_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

class SuiteGroupTest : public ::testing::Test {
 protected:
  ~SuiteGroupTest() override { environment_.RunAll(); }

  SimulatedEnvironment environment_{1};
  FakeGpuRuntime runtime_{{.num_gpus = 2, .environment = environment_.get()}};
  SimulatedMachine machine_{runtime_, environment_};
};

TEST_F(SuiteGroupTest, HasTheDevicesOfTheFirstGpus) {
  const auto one = SuiteGroup::Create(machine_, 1, 3);
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ((*one)->size(), 3);
  EXPECT_EQ((*one)->device(2).gpu(), 0);
  const auto all = SuiteGroup::Create(machine_, 2, 1);
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ((*all)->size(), 2);
  EXPECT_EQ((*all)->device(1).gpu(), 1);
}

TEST_F(SuiteGroupTest, TasksHaveGpusOfTheirOwnOrShareTheFirstOnes) {
  const auto own = SuiteGroup::CreateTasks(machine_, {.devices_per_gpu = 3});
  ASSERT_THAT(own, IsOk());
  EXPECT_EQ((*own)->size(), 6);
  EXPECT_EQ((*own)->device(2).full_name(),
            "/job:localhost/replica:0/task:0/device:GPU:2");
  EXPECT_EQ((*own)->device(2).gpu(), 0);
  EXPECT_EQ((*own)->device(3).attributes().name.TaskName(),
            "/job:localhost/replica:0/task:1");
  EXPECT_EQ((*own)->device(3).gpu(), 1);
  const auto shared =
      SuiteGroup::CreateTasks(machine_, {.num_tasks = 3, .shares_gpus = true});
  ASSERT_THAT(shared, IsOk());
  EXPECT_EQ((*shared)->num_tasks(), 3);
  EXPECT_EQ((*shared)->device(2).gpu(), 0);
}

TEST_F(SuiteGroupTest, WhatIsWrittenIsRead) {
  const auto group = SuiteGroup::Create(machine_, 1, 1);
  ASSERT_THAT(group, IsOk());
  const Bytes bytes = {1, 2, 3};
  const Tensor tensor = (*group)->Allocate(0, DType::kUint8, 3);
  (*group)->Write(0, tensor, bytes);
  const uint8_t* const found = (*group)->Read(0, tensor);
  ASSERT_THAT((*group)->Finish(), IsOk());
  EXPECT_EQ(Bytes(found, found + 3), bytes);
}

TEST_F(SuiteGroupTest, AnErrorEndsTheCallsOfOthers) {
  const auto group = SuiteGroup::Create(machine_, 1, 2);
  ASSERT_THAT(group, IsOk());
  const CollectiveRequest request =
      (*group)->Request(AllReduce{}, DType::kUint8, 3);
  Tensor first = (*group)->Allocate(0, DType::kUint8, 3);
  (*group)->Call(0, request, first, &first);
  runtime_.FailCall(GpuCall::kAllocateAsync, 0,
                    absl::ResourceExhaustedError("too little"));
  Tensor second = (*group)->Allocate(1, DType::kUint8, 3);
  EXPECT_FALSE(second.is_set());
  (*group)->Call(1, request, second, &second);
  EXPECT_THAT((*group)->Finish(), StatusIs(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("too little")));
  EXPECT_EQ(machine_.num_given_up(), 0);
}

}  // namespace
}  // namespace tutti
