#include "gpu/testing/fake_gpu_queues.h"

#include <memory>

#include "absl/status/status.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/gpu_devices.h"

// Tests details; fake_gpu_runtime_test.cc tests the other behaviour.

namespace tutti {
namespace fake_gpu_queues_test {

class FakeGpuQueuesTest : public ::testing::Test {
 protected:
  ~FakeGpuQueuesTest() override { queues_->End(); }

  SimulatedEnvironment environment_{1};
  const std::shared_ptr<FakeGpuQueues> queues_ =
      std::make_shared<FakeGpuQueues>(/*num_gpus=*/1,
                                      /*keeps_host_calls=*/false,
                                      environment_.get());
};

absl::Status Nothing(FakeGpuMemory& /*memory*/) { return absl::OkStatus(); }

TEST_F(FakeGpuQueuesTest, WhatIsDestroyedIsKeptNoLongerThanItHoldsSomething) {
  const GpuStream stream = queues_->CreateStream(0);
  const GpuEvent event = queues_->CreateEvent(0);
  EXPECT_THAT(queues_->Put(stream, Nothing), IsOk());
  EXPECT_THAT(queues_->Record(event, stream), IsOk());
  EXPECT_THAT(queues_->DestroyEvent(event), IsOk());
  EXPECT_THAT(queues_->DestroyStream(stream), IsOk());
  EXPECT_EQ(queues_->NumStreams(), 1);
  EXPECT_EQ(queues_->NumEvents(), 0);
  environment_.RunAll();
  EXPECT_EQ(queues_->NumStreams(), 0);
  EXPECT_THAT(queues_->DestroyStream(queues_->CreateStream(0)), IsOk());
  EXPECT_EQ(queues_->NumStreams(), 0);
}

TEST_F(FakeGpuQueuesTest, AStreamIsKeptWhileItCallsTheHost) {
  const GpuStream stream = queues_->CreateStream(0);
  int num_streams = 0;
  EXPECT_THAT(queues_->PutHostCall(stream,
                                   [&](const absl::Status& status) {
                                     EXPECT_THAT(status, IsOk());
                                     num_streams = queues_->NumStreams();
                                   }),
              IsOk());
  EXPECT_THAT(queues_->DestroyStream(stream), IsOk());
  environment_.RunAll();
  EXPECT_EQ(num_streams, 1);
  EXPECT_EQ(queues_->NumStreams(), 0);
}

TEST_F(FakeGpuQueuesTest, AStreamOfASpoiltGpuIsNotKept) {
  const GpuStream spoilt = queues_->CreateStream(0);
  const GpuStream other = queues_->CreateStream(0);
  const GpuEvent never = queues_->CreateEvent(0);
  EXPECT_THAT(queues_->Record(never, spoilt), IsOk());
  EXPECT_THAT(queues_->Wait(other, never), IsOk());
  EXPECT_THAT(queues_->DestroyStream(other), IsOk());
  EXPECT_THAT(queues_->PutFault(spoilt, absl::InternalError("illegal address")),
              IsOk());
  EXPECT_THAT(queues_->DestroyStream(spoilt), IsOk());
  EXPECT_THAT(queues_->DestroyEvent(never), IsOk());
  environment_.RunAll();
  EXPECT_EQ(queues_->NumStreams(), 0);
}

}  // namespace fake_gpu_queues_test
}  // namespace tutti
