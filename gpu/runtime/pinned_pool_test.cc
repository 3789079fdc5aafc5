#include "gpu/runtime/pinned_pool.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace pinned_pool_test {

using ::testing::HasSubstr;
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
  const auto pool = NewPool(1 << 20);
  ASSERT_THAT(pool->Take(4096), IsOk());
  runtime_.FailCall(GpuCall::kAllocatePinned, 0,
                    absl::ResourceExhaustedError("no more"));
  const auto buffer = pool->Take(8192);
  EXPECT_THAT(buffer, IsOk());
  EXPECT_THAT(runtime_.Leaks(), SizeIs(1));
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

TEST_F(PinnedPoolTest, WhereAGpuHasNoMoreMemoryWhatWasKeptGoesFirst) {
  const auto pool = *PinnedPool::Create(
      {.runtime = &runtime_, .is_on_gpu = true, .kept_bytes = 1 << 20});
  ASSERT_THAT(pool->Take(4096), IsOk());
  runtime_.FailCall(GpuCall::kAllocatePinnedOnGpu, 0,
                    absl::ResourceExhaustedError("no more"));
  const auto buffer = pool->Take(8192);
  EXPECT_THAT(buffer, IsOk());
  EXPECT_EQ(runtime_.UsedBytes(0), 8192);
}

TEST_F(PinnedPoolTest, NoMoreIsGivenOutAtATimeThanWasSaid) {
  const auto pool = *PinnedPool::Create({.runtime = &runtime_,
                                         .is_on_gpu = true,
                                         .kept_bytes = 4096,
                                         .most_bytes = 3 * 4096});
  const auto is_refused =
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("of 12288"));
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
  EXPECT_THAT(pool->Take(8192), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("of 8192")));
  EXPECT_THAT(pool->Take(4096), IsOk());
}

TEST_F(PinnedPoolTest, ErrorsAreThoseOfTheRuntime) {
  const auto pool = NewPool(1 << 20);
  runtime_.FailCall(GpuCall::kAllocatePinned, 0,
                    absl::UnavailableError("no driver"));
  EXPECT_THAT(pool->Take(1),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no driver")));
  EXPECT_THAT(pool->Take(~size_t{0}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("18446744073709551615")));
  EXPECT_THAT(PinnedPool::Create({}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("needs a runtime")));
}

}  // namespace pinned_pool_test
}  // namespace tutti
