#include "gpu/testing/fake_gpu_runtime.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "gpu/testing/fake_gpu_queues.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace fake_gpu_runtime_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kBytes = 64;
constexpr uint64_t kSeeds = 20;

// GPUs, and two streams of GPU 0.
class Gpus {
 public:
  explicit Gpus(uint64_t seed, int num_gpus = 1, int64_t memory_bytes = 1 << 20)
      : environment_(seed),
        runtime_({.num_gpus = num_gpus,
                  .memory_bytes = memory_bytes,
                  .environment = environment_.get()}),
        one_(*runtime_.CreateStream(0)),
        other_(*runtime_.CreateStream(0)) {}

  FakeGpuRuntime& runtime() { return runtime_; }
  GpuStream one() const { return one_; }
  GpuStream other() const { return other_; }
  void RunAll() { environment_.RunAll(); }

  // Allocates memory that all streams may use.
  void* Allocate(size_t num_bytes = kBytes) {
    void* const memory = *runtime_.AllocateAsync(num_bytes, one_);
    RunAll();
    return memory;
  }

  absl::Status Fill(void* memory, uint8_t value, GpuStream stream) {
    std::vector<uint8_t>& source = *sources_.emplace_back(
        std::make_unique<std::vector<uint8_t>>(kBytes, value));
    return runtime_.CopyAsync(memory, source.data(), kBytes, stream);
  }

  uint8_t FirstByte(const void* memory) {
    return runtime_.Read(memory, 1).value()[0];
  }

 private:
  SimulatedEnvironment environment_;
  FakeGpuRuntime runtime_;
  const GpuStream one_, other_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> sources_;
};

StatusCallback KeepIn(std::vector<absl::Status>& statuses) {
  return
      [&statuses](const absl::Status& status) { statuses.push_back(status); };
}

TEST(FakeGpuRuntimeTest, NothingRunsInsideTheCall) {
  Gpus gpus(1);
  void* const memory = gpus.Allocate();
  ASSERT_THAT(gpus.Fill(memory, 7, gpus.one()), IsOk());
  EXPECT_NE(gpus.FirstByte(memory), 7);
  gpus.RunAll();
  EXPECT_EQ(gpus.FirstByte(memory), 7);
}

TEST(FakeGpuRuntimeTest, AStreamRunsInOrder) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Gpus gpus(seed);
    void* const memory = gpus.Allocate();
    for (uint8_t value = 1; value <= 9; ++value) {
      ASSERT_THAT(gpus.Fill(memory, value, gpus.one()), IsOk());
    }
    gpus.RunAll();
    EXPECT_EQ(gpus.FirstByte(memory), 9);
  }
}

// First byte after a stream wrote 1 and another stream then wrote 2, per seed.
std::vector<int> WritesOfTwoStreams(bool waits) {
  std::vector<int> bytes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Gpus gpus(seed);
    void* const memory = gpus.Allocate();
    const GpuEvent event = *gpus.runtime().CreateEvent(0);
    EXPECT_THAT(gpus.Fill(memory, 1, gpus.one()), IsOk());
    EXPECT_THAT(gpus.runtime().RecordEvent(event, gpus.one()), IsOk());
    if (waits) {
      EXPECT_THAT(gpus.runtime().WaitForEvent(gpus.other(), event), IsOk());
    }
    EXPECT_THAT(gpus.Fill(memory, 2, gpus.other()), IsOk());
    gpus.RunAll();
    bytes.push_back(gpus.FirstByte(memory));
  }
  return bytes;
}

TEST(FakeGpuRuntimeTest, AMissingWaitGivesWrongBytesWithSomeSeed) {
  EXPECT_THAT(WritesOfTwoStreams(/*waits=*/false), testing::Contains(1));
  EXPECT_THAT(WritesOfTwoStreams(/*waits=*/true), testing::Each(2));
}

TEST(FakeGpuRuntimeTest, AWaitIsForTheRecordBeforeIt) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Gpus gpus(seed);
    FakeGpuRuntime& runtime = gpus.runtime();
    void* const memory = gpus.Allocate();
    const GpuEvent event = *runtime.CreateEvent(0);
    const GpuEvent stop = *runtime.CreateEvent(0);
    ASSERT_THAT(gpus.Fill(memory, 1, gpus.one()), IsOk());
    ASSERT_THAT(runtime.RecordEvent(event, gpus.one()), IsOk());
    ASSERT_THAT(runtime.WaitForEvent(gpus.other(), event), IsOk());
    ASSERT_THAT(gpus.Fill(memory, 2, gpus.other()), IsOk());
    ASSERT_THAT(runtime.RecordEvent(stop, gpus.other()), IsOk());
    // This record comes after the write on `other`.
    ASSERT_THAT(runtime.WaitForEvent(gpus.one(), stop), IsOk());
    ASSERT_THAT(runtime.RecordEvent(event, gpus.one()), IsOk());
    EXPECT_THAT(*runtime.IsDone(event), false);
    gpus.RunAll();
    EXPECT_THAT(*runtime.IsDone(event), true);
    EXPECT_EQ(gpus.FirstByte(memory), 2);
  }
}

TEST(FakeGpuRuntimeTest, MemoryThatIsNotThereYetIsFoundWithSomeSeed) {
  std::vector<std::string> mistakes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Gpus gpus(seed);
    void* const memory = *gpus.runtime().AllocateAsync(kBytes, gpus.one());
    ASSERT_THAT(gpus.Fill(memory, 1, gpus.other()), IsOk());
    gpus.RunAll();
    for (const std::string& mistake : gpus.runtime().Mistakes()) {
      mistakes.push_back(mistake);
    }
  }
  EXPECT_THAT(mistakes, testing::Contains(HasSubstr("a wait is missing")));
}

TEST(FakeGpuRuntimeTest, UseAfterFreeAndPastTheEndSpoilTheGpu) {
  {
    Gpus gpus(1);
    void* const memory = gpus.Allocate();
    ASSERT_THAT(gpus.runtime().FreeAsync(memory, gpus.one()), IsOk());
    ASSERT_THAT(gpus.Fill(memory, 1, gpus.one()), IsOk());
    gpus.RunAll();
    EXPECT_THAT(gpus.runtime().Mistakes(),
                ElementsAre(HasSubstr("after it was freed")));
    EXPECT_THAT(gpus.runtime().CreateStream(0),
                IsFailedPrecondition("after it was freed"));
  }
  Gpus gpus(1);
  void* const memory = gpus.Allocate(kBytes - 1);
  ASSERT_THAT(gpus.Fill(memory, 1, gpus.one()), IsOk());
  gpus.RunAll();
  EXPECT_THAT(gpus.runtime().Mistakes(),
              ElementsAre(HasSubstr("bytes 0 to 64 of memory of 63 bytes")));
}

TEST(FakeGpuRuntimeTest, FreeingTwiceAndWhatIsNotAllocatedIsRefused) {
  Gpus gpus(1);
  void* const memory = gpus.Allocate();
  ASSERT_THAT(gpus.runtime().FreeAsync(memory, gpus.one()), IsOk());
  ASSERT_THAT(gpus.runtime().FreeAsync(memory, gpus.one()), IsOk());
  int value = 0;
  EXPECT_THAT(gpus.runtime().FreeAsync(&value, gpus.one()),
              IsInvalidArgument("not allocated on a GPU"));
  EXPECT_THAT(gpus.runtime().FreePinned({.data = &value}),
              IsInvalidArgument("not allocated as pinned"));
  gpus.RunAll();
  EXPECT_THAT(gpus.runtime().Mistakes(),
              testing::Contains(HasSubstr("a second time")));
}

TEST(FakeGpuRuntimeTest, WhatIsNotGivenBackIsNamed) {
  SimulatedEnvironment environment(1);
  FakeGpuRuntime runtime({.environment = environment.get()});
  {
    const OwnedGpuStream stream = *NewStream(runtime, 0);
    const OwnedGpuEvent event = *NewEvent(runtime, 0);
    const OwnedPinnedMemory pinned = *NewPinnedMemory(runtime, 16, 0);
    void* const memory = *runtime.AllocateAsync(8, stream.get());
    environment.RunAll();
    EXPECT_THAT(runtime.Leaks(),
                ElementsAre("8 bytes of GPU 0", "16 bytes of pinned memory",
                            "a stream of GPU 0", "an event of GPU 0"));
    ASSERT_THAT(runtime.FreeAsync(memory, stream.get()), IsOk());
    EXPECT_EQ(runtime.UsedBytes(0), 8);
  }
  // Items of a stream still run after its destruction.
  environment.RunAll();
  EXPECT_THAT(runtime.Leaks(), IsEmpty());
  EXPECT_EQ(runtime.UsedBytes(0), 0);
}

TEST(FakeGpuRuntimeTest, HandlesThatWereDestroyedAreRefused) {
  Gpus gpus(1);
  const GpuEvent event = *gpus.runtime().CreateEvent(0);
  ASSERT_THAT(gpus.runtime().DestroyEvent(event), IsOk());
  EXPECT_THAT(gpus.runtime().RecordEvent(event, gpus.one()),
              IsInvalidArgument("event"));
  ASSERT_THAT(gpus.runtime().DestroyStream(gpus.one()), IsOk());
  EXPECT_THAT(gpus.runtime().DestroyStream(gpus.one()),
              IsInvalidArgument("stream"));
  EXPECT_EQ(gpus.runtime().Mistakes().size(), 2u);
}

TEST(FakeGpuRuntimeTest, MemoryEnds) {
  Gpus gpus(1, /*num_gpus=*/1, /*memory_bytes=*/100);
  void* const memory = gpus.Allocate(60);
  EXPECT_THAT(gpus.runtime().AllocateAsync(60, gpus.one()),
              IsResourceExhausted("60 bytes of 40 that are left"));
  ASSERT_THAT(gpus.runtime().FreeAsync(memory, gpus.one()), IsOk());
  gpus.RunAll();
  EXPECT_THAT(gpus.runtime().AllocateAsync(60, gpus.one()), IsOk());
}

TEST(FakeGpuRuntimeTest, TheCallThatIsToFailFailsOnce) {
  Gpus gpus(1);
  gpus.runtime().FailCall(GpuCall::kAllocateAsync, 1,
                          absl::ResourceExhaustedError("none left"));
  EXPECT_THAT(gpus.runtime().AllocateAsync(8, gpus.one()), IsOk());
  EXPECT_THAT(gpus.runtime().AllocateAsync(8, gpus.one()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "AllocateAsync on GPU 0: none left"));
  EXPECT_THAT(gpus.runtime().AllocateAsync(8, gpus.one()), IsOk());
}

TEST(FakeGpuRuntimeTest, AnErrorOfAStreamSpoilsItsGpuAndNoOther) {
  std::vector<absl::Status> reported, reported_other;  // Outlive the runtime.
  Gpus gpus(1, /*num_gpus=*/2);
  const GpuStream stream = *gpus.runtime().CreateStream(1);
  gpus.runtime().FailStream(gpus.one(), absl::InternalError("illegal address"));
  ASSERT_THAT(gpus.runtime().CallHost(KeepIn(reported), gpus.one()), IsOk());
  ASSERT_THAT(gpus.runtime().CallHost(KeepIn(reported_other), stream), IsOk());
  gpus.RunAll();
  EXPECT_THAT(reported_other, ElementsAre(IsOk()));
  EXPECT_THAT(reported, IsEmpty());
  const auto has_failed = StatusIs(absl::StatusCode::kInternal,
                                   "CallHost on GPU 0: illegal address");
  EXPECT_THAT(gpus.runtime().CallHost(KeepIn(reported), gpus.other()),
              has_failed);
  EXPECT_THAT(reported, ElementsAre(has_failed, has_failed));
  EXPECT_THAT(gpus.runtime().CallHost(KeepIn(reported_other), stream), IsOk());
  EXPECT_THAT(gpus.runtime().Mistakes(), IsEmpty());
}

TEST(FakeGpuRuntimeTest, HostCallsThatHaveNotRunFailWhenTheRuntimeEnds) {
  std::vector<absl::Status> reported;
  {
    Gpus gpus(1);
    ASSERT_THAT(gpus.runtime().CallHost(KeepIn(reported), gpus.one()), IsOk());
  }
  EXPECT_THAT(reported, ElementsAre(IsAborted("runtime ended")));
}

TEST(FakeGpuRuntimeTest, PinnedMemoryOfAGpuIsThereUntilItIsFreed) {
  Gpus gpus(1);
  FakeGpuRuntime& runtime = gpus.runtime();
  const PinnedMemory memory = *runtime.AllocatePinnedOnGpu(kBytes, 0);
  ASSERT_THAT(gpus.Fill(memory.data, 7, gpus.one()), IsOk());
  gpus.RunAll();
  EXPECT_EQ(gpus.FirstByte(memory.data), 7);
  EXPECT_EQ(runtime.UsedBytes(0), 64);
  EXPECT_THAT(runtime.FreePinned(memory), IsOk());
  EXPECT_EQ(runtime.UsedBytes(0), 0);
  EXPECT_THAT(runtime.Read(memory.data, 1).status(),
              IsFailedPrecondition("after it was freed"));
  EXPECT_THAT(runtime.AllocatePinnedOnGpu(size_t{1} << 40, 0),
              IsResourceExhausted("AllocatePinnedOnGpu on GPU 0"));
}

TEST(FakeGpuRuntimeTest, WhereANetworkIsToldAddressesTheBytesAreThere) {
  SimulatedEnvironment environment(/*seed=*/1);
  FakeGpuRuntime runtime(
      {.host_may_touch = true, .environment = environment.get()});
  const GpuStream stream = *runtime.CreateStream(0);
  const PinnedMemory memory = *runtime.AllocatePinnedOnGpu(kBytes, 0);
  std::memset(memory.data, 5, kBytes);
  void* const copy = *runtime.AllocateAsync(kBytes, stream);
  EXPECT_THAT(runtime.CopyAsync(copy, memory.data, kBytes, stream), IsOk());
  environment.RunAll();
  EXPECT_EQ(runtime.Read(copy, kBytes).value()[kBytes - 1], 5);
  EXPECT_THAT(runtime.CopyAsync(memory.data, copy, kBytes / 2, stream), IsOk());
  std::memset(memory.data, 6, kBytes);
  environment.RunAll();
  EXPECT_EQ(static_cast<const uint8_t*>(memory.data)[0], 5);
  EXPECT_EQ(static_cast<const uint8_t*>(memory.data)[kBytes - 1], 6);
  EXPECT_THAT(runtime.FreePinned(memory), IsOk());
}

TEST(FakeGpuRuntimeTest, HostCallsMustNotCallTheRuntime) {
  Gpus gpus(1);
  FakeGpuRuntime& runtime = gpus.runtime();
  const GpuEvent event = *runtime.CreateEvent(0);
  const PinnedMemory pinned = *runtime.AllocatePinned(8, 0);
  std::vector<absl::Status> inside;
  ASSERT_THAT(runtime.CallHost(
                  [&](const absl::Status&) {
                    inside = {runtime.NumGpus().status(),
                              runtime.CreateEvent(0).status(),
                              runtime.DestroyEvent(event),
                              runtime.DestroyStream(gpus.other()),
                              runtime.FreePinned(pinned)};
                  },
                  gpus.one()),
              IsOk());
  gpus.RunAll();
  ASSERT_EQ(inside.size(), 5u);
  EXPECT_THAT(inside, testing::Each(IsFailedPrecondition("inside CallHost()")));
  EXPECT_EQ(runtime.Mistakes().size(), inside.size());
  EXPECT_THAT(runtime.DestroyEvent(event), IsOk());
  EXPECT_THAT(runtime.FreePinned(pinned), IsOk());
}

TEST(FakeGpuRuntimeTest, KernelsNeedAccessToPeersAndPinnedMemory) {
  const auto mistakes = [](bool is_enabled, bool is_host) {
    Gpus gpus(1, /*num_gpus=*/2);
    FakeGpuRuntime& runtime = gpus.runtime();
    const GpuStream stream = *runtime.CreateStream(1);
    if (is_enabled) {
      EXPECT_THAT(runtime.EnablePeerAccess(1, 0), IsOk());
    }
    std::vector<uint8_t> host(kBytes);
    void* const from = is_host ? host.data() : gpus.Allocate();
    void* const to = *runtime.AllocateAsync(kBytes, stream);
    EXPECT_THAT(
        runtime.LaunchCopy(
            {.input = from, .outputs = {to}, .num_bytes = kBytes}, stream),
        IsOk());
    gpus.RunAll();
    return runtime.Mistakes();
  };
  EXPECT_THAT(mistakes(/*is_enabled=*/true, /*is_host=*/false), IsEmpty());
  EXPECT_THAT(mistakes(/*is_enabled=*/false, /*is_host=*/false),
              ElementsAre(HasSubstr("access is not enabled")));
  EXPECT_THAT(mistakes(/*is_enabled=*/true, /*is_host=*/true),
              ElementsAre(HasSubstr("not pinned")));
}

TEST(FakeGpuRuntimeTest, GpusWithoutALinkHaveNoAccess) {
  SimulatedEnvironment environment(1);
  FakeGpuRuntime runtime({.num_gpus = 2,
                          .link = [](int, int) { return PeerLink::kNone; },
                          .environment = environment.get()});
  EXPECT_EQ(*runtime.LinkBetween(0, 1), PeerLink::kNone);
  EXPECT_EQ(*runtime.LinkBetween(1, 1), PeerLink::kNvLink);
  EXPECT_THAT(runtime.EnablePeerAccess(0, 1),
              IsFailedPrecondition("GPU 0 has no link to GPU 1"));
  EXPECT_THAT(runtime.LinkBetween(0, 2), IsInvalidArgument("there are 2 GPUs"));
}

TEST(FakeGpuRuntimeTest, RunsOnThreadsToo) {
  const DefaultEnvironment environment(/*num_workers=*/2);
  FakeGpuRuntime runtime({.environment = environment.get()});
  const GpuStream one = *runtime.CreateStream(0);
  const GpuStream other = *runtime.CreateStream(0);
  const GpuEvent event = *runtime.CreateEvent(0);
  int value = 0;
  BlockingCounter is_done(1);
  for (int i = 0; i < 100; ++i) {
    const GpuStream stream = i % 2 == 0 ? one : other;
    const GpuStream next = i % 2 == 0 ? other : one;
    ASSERT_THAT(
        runtime.CallHost([&value](const absl::Status&) { ++value; }, stream),
        IsOk());
    ASSERT_THAT(runtime.RecordEvent(event, stream), IsOk());
    ASSERT_THAT(runtime.WaitForEvent(next, event), IsOk());
  }
  ASSERT_THAT(
      runtime.CallHost(
          [&is_done](const absl::Status&) { is_done.DecrementCount(); }, one),
      IsOk());
  is_done.Wait();
  EXPECT_EQ(value, 100);
}

// Tests details; fake_gpu_runtime_test.cc tests the other behaviour.

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

}  // namespace fake_gpu_runtime_test
}  // namespace tutti
