#include "gpu/pinned_pool.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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
  std::shared_ptr<PinnedPool> NewPool(int max_buffers) {
    return *PinnedPool::Create(
        {.runtime = &runtime_, .buffer_bytes = 32, .max_buffers = max_buffers});
  }

  // What Take() calls: keeps the buffer or the error.
  PinnedPool::Callback Keep() {
    return [this](absl::StatusOr<PinnedPool::Buffer> buffer) {
      if (buffer.ok()) {
        held_.push_back(
            std::make_unique<PinnedPool::Buffer>(*std::move(buffer)));
      } else {
        errors_.push_back(buffer.status());
      }
    };
  }

  SimulatedEnvironment environment_{1};
  FakeGpuRuntime runtime_{{.environment = environment_.get()}};
  std::vector<std::unique_ptr<PinnedPool::Buffer>> held_;
  std::vector<absl::Status> errors_;
};

TEST_F(PinnedPoolTest, BuffersAreUsedAgain) {
  const auto pool = NewPool(2);
  pool->Take(Keep());
  ASSERT_THAT(held_, SizeIs(1));
  EXPECT_EQ(held_[0]->size_bytes(), 32u);
  std::byte* const data = held_[0]->data();
  held_.clear();
  pool->Take(Keep());
  ASSERT_THAT(held_, SizeIs(1));
  EXPECT_EQ(held_[0]->data(), data);
  EXPECT_THAT(runtime_.Leaks(), SizeIs(1));
}

TEST_F(PinnedPoolTest, WhoFindsNoneWaitsInOrder) {
  const auto pool = NewPool(1);
  pool->Take(Keep());
  std::vector<int> order;
  std::optional<PinnedPool::Buffer> kept;
  pool->Take([&](absl::StatusOr<PinnedPool::Buffer> buffer) {
    order.push_back(1);  // And gives it back.
    EXPECT_THAT(buffer, IsOk());
  });
  pool->Take([&](absl::StatusOr<PinnedPool::Buffer> buffer) {
    order.push_back(2);
    kept.emplace(*std::move(buffer));
  });
  EXPECT_THAT(order, IsEmpty());
  held_.clear();
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
  EXPECT_THAT(runtime_.Leaks(), SizeIs(1));
}

TEST_F(PinnedPoolTest, ManyWhoGiveBackAtOnceNeedNoStack) {
  const auto pool = NewPool(1);
  pool->Take(Keep());
  int served = 0;
  for (int i = 0; i < 200'000; ++i) {
    pool->Take([&](const absl::StatusOr<PinnedPool::Buffer>&) { ++served; });
  }
  held_.clear();
  EXPECT_EQ(served, 200'000);
}

TEST_F(PinnedPoolTest, WhereNoneCanBeMadeItSaysSoAndTriesAgainLater) {
  const auto pool = NewPool(1);
  runtime_.FailCall(GpuCall::kAllocatePinned, 0,
                    absl::ResourceExhaustedError("no pages"));
  pool->Take(Keep());
  ASSERT_THAT(errors_, SizeIs(1));
  EXPECT_THAT(errors_[0], StatusIs(absl::StatusCode::kResourceExhausted,
                                   HasSubstr("no pages")));
  pool->Take(Keep());
  EXPECT_THAT(held_, SizeIs(1));
}

// Does something while pinned memory is being allocated.
class SlowRuntime : public FakeGpuRuntime {
 public:
  SlowRuntime(const Environment& environment, std::function<void()> meanwhile)
      : FakeGpuRuntime({.environment = environment}),
        meanwhile_(std::move(meanwhile)) {}

  absl::StatusOr<void*> AllocatePinned(size_t num_bytes) override {
    meanwhile_();
    return FakeGpuRuntime::AllocatePinned(num_bytes);
  }

 private:
  const std::function<void()> meanwhile_;
};

TEST_F(PinnedPoolTest, WhoWaitsForABufferThatCannotBeMadeIsToldToo) {
  std::shared_ptr<PinnedPool> pool;
  SlowRuntime runtime(environment_.get(), [&] { pool->Take(Keep()); });
  pool = *PinnedPool::Create({.runtime = &runtime, .max_buffers = 1});
  runtime.FailCall(GpuCall::kAllocatePinned, 0,
                   absl::ResourceExhaustedError("no pages"));
  pool->Take(Keep());
  EXPECT_THAT(errors_, SizeIs(2));
}

TEST_F(PinnedPoolTest, WhereNoMoreCanBeMadeOneIsAwaited) {
  const auto pool = NewPool(2);
  pool->Take(Keep());
  runtime_.FailCall(GpuCall::kAllocatePinned, 0,
                    absl::ResourceExhaustedError("no pages"));
  bool is_served = false;
  pool->Take([&](const absl::StatusOr<PinnedPool::Buffer>& buffer) {
    EXPECT_THAT(buffer, IsOk());
    is_served = true;
  });
  EXPECT_FALSE(is_served);
  held_.clear();
  EXPECT_TRUE(is_served);
}

TEST_F(PinnedPoolTest, BuffersMayOutliveThePool) {
  auto pool = NewPool(1);
  pool->Take(Keep());
  pool.reset();
  EXPECT_THAT(runtime_.Leaks(), SizeIs(1));
  held_.clear();
  EXPECT_THAT(runtime_.Leaks(), IsEmpty());
}

TEST_F(PinnedPoolTest, WrongOptionsAreRefused) {
  EXPECT_THAT(PinnedPool::Create({}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("needs a runtime")));
  EXPECT_THAT(PinnedPool::Create({.runtime = &runtime_, .max_buffers = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not 0 of 4194304")));
}

}  // namespace
}  // namespace tutti
