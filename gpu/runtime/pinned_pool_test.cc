#include "gpu/runtime/pinned_pool.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/runtime/cuda_host_calls.h"
#include "gpu/runtime/gpu_launch.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {
namespace pinned_pool_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Calls `on_free`, unless null, at the next release of pinned memory.
class WatchedRuntime : public FakeGpuRuntime {
 public:
  using FakeGpuRuntime::FakeGpuRuntime;

  absl::Status FreePinned(PinnedMemory memory) override {
    if (const auto call = std::exchange(on_free, nullptr)) call();
    return FakeGpuRuntime::FreePinned(memory);
  }

  std::function<void()> on_free;
};

class PinnedPoolTest : public ::testing::Test {
 protected:
  std::shared_ptr<PinnedPool> NewPool(size_t kept_bytes) {
    return *PinnedPool::Create(
        {.runtime = &runtime_, .kept_bytes = kept_bytes});
  }

  // Takes a buffer of each size, returns them all, and counts new buffers.
  int64_t NumMade(PinnedPool& pool, const std::vector<size_t>& sizes) {
    const int64_t num_before = runtime_.NumCalls(GpuCall::kAllocatePinned);
    std::vector<PinnedPool::Buffer> buffers;
    for (const size_t size_bytes : sizes) {
      auto buffer = pool.Take(size_bytes);
      EXPECT_THAT(buffer, IsOk());
      if (buffer.ok()) buffers.push_back(*std::move(buffer));
    }
    return runtime_.NumCalls(GpuCall::kAllocatePinned) - num_before;
  }

  SimulatedEnvironment environment_{1};
  WatchedRuntime runtime_{{.environment = environment_.get()}};
};

TEST_F(PinnedPoolTest, BuffersAreUsedAgainForWhatFits) {
  const auto pool = NewPool(1 << 20);
  std::byte* data = nullptr;
  {
    const auto buffer = pool->Take(5000);
    ASSERT_THAT(buffer, IsOk());
    EXPECT_GE(buffer->size_bytes(), 5000u);
    data = buffer->data();
  }
  const auto again = pool->Take(8000);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->data(), data);
  const auto other = pool->Take(8000);
  ASSERT_THAT(other, IsOk());
  EXPECT_NE(other->data(), data);
  EXPECT_THAT(runtime_.Leaks(), SizeIs(2));
}

TEST_F(PinnedPoolTest, SmallOnesShareASize) {
  const auto pool = NewPool(1 << 20);
  std::byte* const data = pool->Take(1)->data();
  EXPECT_EQ(pool->Take(4096)->data(), data);
  EXPECT_EQ(pool->Take(0)->data(), data);
}

TEST_F(PinnedPoolTest, NoMoreIsKeptThanWasSaid) {
  const auto pool = NewPool(3 * 4096);
  {
    const auto a = pool->Take(8192), b = pool->Take(8192), c = pool->Take(1);
    EXPECT_THAT(runtime_.Leaks(), SizeIs(3));
  }
  EXPECT_THAT(runtime_.Leaks(), SizeIs(2));
}

TEST_F(PinnedPoolTest, ASizeThatIsUsedNoLongerMakesRoom) {
  const auto pool = NewPool(2 * 8192);
  EXPECT_EQ(NumMade(*pool, {8192, 8192}), 2);
  EXPECT_EQ(NumMade(*pool, {4096}), 1);
  EXPECT_EQ(NumMade(*pool, {4096}), 0);
  EXPECT_THAT(runtime_.Leaks(), SizeIs(2));  // No more was freed than needed.
  EXPECT_EQ(NumMade(*pool, {8192}), 0);
}

TEST_F(PinnedPoolTest, TheSizeUsedLongestAgoMakesRoomFirst) {
  const auto pool = NewPool(4096 + 8192 + 16384);
  EXPECT_EQ(NumMade(*pool, {4096}), 1);
  EXPECT_EQ(NumMade(*pool, {8192}), 1);
  EXPECT_EQ(NumMade(*pool, {16384}), 1);
  EXPECT_EQ(NumMade(*pool, {4096, 4096}), 1);
  EXPECT_THAT(runtime_.Leaks(), SizeIs(3));
  EXPECT_EQ(NumMade(*pool, {4096, 4096, 16384}), 0);
  EXPECT_EQ(NumMade(*pool, {8192}), 1);
}

TEST_F(PinnedPoolTest, ASizeIsInUseFromTheTakingOn) {
  const auto pool = NewPool(2 * 8192 + 16384);
  EXPECT_EQ(NumMade(*pool, {8192, 8192}), 2);
  EXPECT_EQ(NumMade(*pool, {16384}), 1);
  const auto held = pool->Take(8192);
  EXPECT_EQ(NumMade(*pool, {4096, 4096, 4096}), 3);
  EXPECT_EQ(NumMade(*pool, {8192}), 0);
}

TEST_F(PinnedPoolTest, NothingMakesRoomInVain) {
  const auto pool = NewPool(3 * 4096);
  EXPECT_EQ(NumMade(*pool, {4096}), 1);
  EXPECT_EQ(NumMade(*pool, {16384}), 1);       // Larger than `kept_bytes`.
  EXPECT_EQ(NumMade(*pool, {8192, 8192}), 2);  // Only one is kept.
  EXPECT_EQ(NumMade(*pool, {4096, 8192}), 0);
}

TEST_F(PinnedPoolTest, WhoMakesRoomHoldsNobodyUp) {
  const auto pool = NewPool(8192);
  EXPECT_EQ(NumMade(*pool, {8192}), 1);
  std::optional<PinnedPool::Buffer> buffer = *pool->Take(4096);
  std::optional<int64_t> num_made;
  runtime_.on_free = [&] { num_made = NumMade(*pool, {4096}); };
  buffer.reset();
  EXPECT_EQ(num_made, 0);
}

TEST_F(PinnedPoolTest, BuffersOutliveTheirPool) {
  auto pool = NewPool(1 << 20);
  std::optional<PinnedPool::Buffer> buffer = *pool->Take(32);
  pool.reset();
  buffer->data()[31] = std::byte{1};
  buffer.reset();
  EXPECT_THAT(runtime_.Leaks(), IsEmpty());
}

TEST_F(PinnedPoolTest, WhereMemoryIsScarceWhatWasKeptGoesFirst) {
  for (const bool is_on_gpu : {false, true}) {
    SCOPED_TRACE(is_on_gpu ? "of a GPU" : "of the host");
    const auto pool = *PinnedPool::Create(
        {.runtime = &runtime_, .is_on_gpu = is_on_gpu, .kept_bytes = 1 << 20});
    ASSERT_THAT(pool->Take(4096), IsOk());
    runtime_.FailCall(
        is_on_gpu ? GpuCall::kAllocatePinnedOnGpu : GpuCall::kAllocatePinned, 0,
        absl::ResourceExhaustedError("no more"));
    const auto buffer = pool->Take(8192);
    EXPECT_THAT(buffer, IsOk());
    EXPECT_THAT(runtime_.Leaks(), SizeIs(1));
    EXPECT_EQ(runtime_.UsedBytes(0), is_on_gpu ? 8192 : 0);
  }
}

TEST_F(PinnedPoolTest, BuffersOnAGpuAreItsOwn) {
  const auto pool = *PinnedPool::Create(
      {.runtime = &runtime_, .is_on_gpu = true, .kept_bytes = 1 << 20});
  std::byte* const data = pool->Take(5000)->data();
  EXPECT_EQ(pool->Take(8000)->data(), data);
  EXPECT_EQ(runtime_.UsedBytes(0), 8192);
  EXPECT_EQ(runtime_.NumCalls(GpuCall::kAllocatePinned), 0);
  EXPECT_EQ(runtime_.NumCalls(GpuCall::kAllocatePinnedOnGpu), 1);
}

TEST_F(PinnedPoolTest, NoMoreIsGivenOutAtATimeThanWasSaid) {
  const auto pool = *PinnedPool::Create({.runtime = &runtime_,
                                         .is_on_gpu = true,
                                         .kept_bytes = 4096,
                                         .most_bytes = 3 * 4096});
  const auto is_refused = IsResourceExhausted("of 12288");
  const auto first = pool->Take(8192);
  {
    const auto second = pool->Take(1);
    EXPECT_THAT(second, IsOk());
    EXPECT_THAT(pool->Take(1), is_refused);
  }
  EXPECT_THAT(pool->Take(8192), is_refused);
  EXPECT_THAT(pool->Take(4096), IsOk());  // Kept buffers do not count.
  EXPECT_EQ(runtime_.NumCalls(GpuCall::kAllocatePinnedOnGpu), 2);
}

TEST_F(PinnedPoolTest, WhatCannotBeMadeIsNotGivenOutAndWhatIsAbandonedIs) {
  const auto pool =
      *PinnedPool::Create({.runtime = &runtime_, .most_bytes = 8192});
  runtime_.FailCall(GpuCall::kAllocatePinned, 0,
                    absl::UnavailableError("no driver"));
  EXPECT_THAT(pool->Take(8192).status(), Not(IsOk()));
  pool->Take(4096)->Abandon();
  EXPECT_THAT(pool->Take(8192), IsResourceExhausted("of 8192"));
  EXPECT_THAT(pool->Take(4096), IsOk());
}

TEST_F(PinnedPoolTest, ErrorsAreThoseOfTheRuntime) {
  const auto pool = NewPool(1 << 20);
  runtime_.FailCall(GpuCall::kAllocatePinned, 0,
                    absl::UnavailableError("no driver"));
  EXPECT_THAT(pool->Take(1), IsUnavailable("no driver"));
  EXPECT_THAT(pool->Take(~size_t{0}),
              IsResourceExhausted("18446744073709551615"));
  EXPECT_THAT(PinnedPool::Create({}), IsInvalidArgument("needs a runtime"));
}

// Records the statuses that calls receive.
class Report {
 public:
  StatusCallback Keep() {
    return [this](const absl::Status& status) { statuses_.push_back(status); };
  }
  const std::vector<absl::Status>& statuses() const { return statuses_; }

 private:
  std::vector<absl::Status> statuses_;
};

TEST(CudaHostCallsTest, ACallRunsOnce) {
  Report reported;
  CudaHostCalls& calls = CudaHostCalls::Get();
  void* const call = calls.Add(&reported, 0, reported.Keep());
  CudaHostCalls::Run(call);
  CudaHostCalls::Run(call);
  calls.Fail(call, absl::InternalError("late"));
  EXPECT_THAT(reported.statuses(), ElementsAre(IsOk()));
}

TEST(CudaHostCallsTest, WhatFailsGetsTheErrorAndNothingElse) {
  CudaHostCalls& calls = CudaHostCalls::Get();
  const int one = 0, other = 0;
  Report failed, failed_with_gpu, other_gpu, other_owner;
  void* const first = calls.Add(&one, 0, failed.Keep());
  void* const second = calls.Add(&one, 0, failed_with_gpu.Keep());
  void* const third = calls.Add(&one, 1, other_gpu.Keep());
  void* const fourth = calls.Add(&other, 0, other_owner.Keep());
  calls.Fail(first, absl::InternalError("one"));
  calls.FailAllOf(&one, 0, absl::InternalError("all"));
  for (void* const call : {first, second, third, fourth}) {
    CudaHostCalls::Run(call);
  }
  EXPECT_THAT(failed.statuses(), ElementsAre(absl::InternalError("one")));
  EXPECT_THAT(failed_with_gpu.statuses(),
              ElementsAre(absl::InternalError("all")));
  EXPECT_THAT(other_gpu.statuses(), ElementsAre(IsOk()));
  EXPECT_THAT(other_owner.statuses(), ElementsAre(IsOk()));
}

TEST(CudaHostCallsTest, TheEndOfAnOwnerIsForAllItsGpusAndForNoOther) {
  CudaHostCalls& calls = CudaHostCalls::Get();
  const int one = 0, other = 0;
  Report ended, kept;
  calls.Add(&one, 0, ended.Keep());
  calls.Add(&one, 1, ended.Keep());
  void* const call = calls.Add(&other, 0, kept.Keep());
  calls.EndAllOf(&one, absl::AbortedError("end"));
  EXPECT_THAT(ended.statuses(), ElementsAre(absl::AbortedError("end"),
                                            absl::AbortedError("end")));
  EXPECT_THAT(kept.statuses(), IsEmpty());
  CudaHostCalls::Run(call);
}

// Ends all calls of an owner while `begin` runs a call on another thread.
// Expects the end to wait.
void ExpectTheEndWaits(void (*begin)(const void* owner, void* call)) {
  CudaHostCalls& calls = CudaHostCalls::Get();
  const int owner = 0;
  BlockingCounter has_begun(1), is_ending(1);
  bool has_returned = false;
  void* const call = calls.Add(&owner, 0, [&](const absl::Status&) {
    has_begun.DecrementCount();
    is_ending.Wait();
    // Gives a wrong end, which does not wait, time to return.
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    has_returned = true;
  });
  // Runs when the end has begun: lets the other call return.
  calls.Add(&owner, 1,
            [&](const absl::Status&) { is_ending.DecrementCount(); });
  std::thread driver([&] { begin(&owner, call); });
  has_begun.Wait();
  calls.EndAllOf(&owner, absl::AbortedError("end"));
  EXPECT_TRUE(has_returned);
  driver.join();
}

TEST(CudaHostCallsTest, AnOwnerEndsWhenItsCallsHaveReturned) {
  ExpectTheEndWaits(
      [](const void* /*owner*/, void* call) { CudaHostCalls::Run(call); });
}

TEST(CudaHostCallsTest, AnOwnerEndsWhenThoseThatFailWithAGpuHaveReturned) {
  ExpectTheEndWaits([](const void* owner, void* /*call*/) {
    CudaHostCalls::Get().FailAllOf(owner, 0, absl::InternalError("fault"));
  });
}

// Launches for `num_members`, whose outputs are separate or in place.
std::vector<GpuLaunch> LaunchesFor(size_t num_members, bool in_place) {
  static uint8_t memory[200];
  GpuReduction reduction = {.dtype = DType::kInt8, .num_elements = 1};
  for (size_t i = 0; i < num_members; ++i) {
    reduction.inputs.push_back(memory + i);
    reduction.outputs.push_back(memory + i + (in_place ? 0 : 100));
  }
  EXPECT_FALSE(NeedsScratch(reduction));
  return SplitReduction(reduction, nullptr);
}

TEST(SplitReductionTest, UpToEightMembersAreOnePass) {
  for (const bool in_place : {false, true}) {
    for (size_t num_members = 1; num_members <= 8; ++num_members) {
      const auto launches = LaunchesFor(num_members, in_place);
      ASSERT_EQ(launches.size(), 1);
      const auto& pass = std::get<GpuReduction>(launches[0]);
      EXPECT_EQ(pass.inputs.size(), num_members);
      EXPECT_EQ(pass.outputs.size(), num_members);
    }
  }
}

TEST(SplitReductionTest, EachFurtherPassTakesSevenMore) {
  for (const auto& [num_members, num_passes] :
       {std::pair(9, 2), {15, 2}, {16, 3}, {22, 3}, {23, 4}}) {
    int num_reductions = 0;
    for (const GpuLaunch& launch : LaunchesFor(num_members, true)) {
      num_reductions += std::holds_alternative<GpuReduction>(launch) ? 1 : 0;
    }
    EXPECT_EQ(num_reductions, num_passes) << num_members;
  }
}

}  // namespace pinned_pool_test
}  // namespace tutti
