#include "gpu/pinned_pool.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/simulated_environment.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PinnedPoolTest : public ::testing::Test {
 protected:
  std::shared_ptr<PinnedPool> NewPool(size_t kept_bytes) {
    return *PinnedPool::Create(
        {.runtime = &runtime_, .kept_bytes = kept_bytes});
  }

  SimulatedEnvironment environment_{1};
  FakeGpuRuntime runtime_{{.environment = environment_.get()}};
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

}  // namespace
}  // namespace tutti
