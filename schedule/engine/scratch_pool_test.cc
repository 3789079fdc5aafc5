#include "schedule/engine/scratch_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"

namespace tutti {
namespace scratch_pool_test {

constexpr size_t kMiB = size_t{1} << 20;

// Counts its allocations.
class CountingDevice : public CpuDevice {
 public:
  CountingDevice()
      : CpuDevice(DeviceAttributes{.name = {"localhost", 0, 0, "CPU", 0}}) {}

  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    ++num_allocated;
    return CpuDevice::Allocate(dtype, shape);
  }

  int num_allocated = 0;
};

class ScratchPoolTest : public testing::Test {
 protected:
  Tensor Take(size_t num_bytes, int rank = 0) {
    Tensor tensor = pool_.Take(rank, device_, num_bytes).value();
    EXPECT_GE(tensor.size_bytes(), num_bytes);
    EXPECT_LE(tensor.size_bytes() / 2, num_bytes);
    return tensor;
  }

  // Returns the number of newly allocated tensors among these sizes.
  int NumNew(std::vector<size_t> sizes, int rank = 0) {
    const int before = device_.num_allocated;
    std::vector<Tensor> taken;
    for (const size_t size : sizes) taken.push_back(Take(size, rank));
    return device_.num_allocated - before;
  }

  CountingDevice device_;
  ScratchPool pool_;
};

TEST_F(ScratchPoolTest, WhatWasGivenIsTakenAgain) {
  Tensor first = Take(kMiB);
  const std::byte* const data = first.data();
  pool_.Give(0, std::move(first));
  EXPECT_EQ(Take(kMiB).data(), data);
  EXPECT_EQ(device_.num_allocated, 1);
}

TEST_F(ScratchPoolTest, NobodyElseHasWhatIsTaken) {
  pool_.Give(0, Take(kMiB));
  const Tensor one = Take(kMiB);
  const Tensor other = Take(kMiB);
  EXPECT_NE(one.data(), other.data());
}

TEST_F(ScratchPoolTest, WhatIsALittleLargerDoesToo) {
  pool_.Give(0, Take(4 * kMiB));
  EXPECT_EQ(NumNew({2 * kMiB}), 0);
}

TEST_F(ScratchPoolTest, WhatIsTooSmallOrMuchTooLargeDoesNot) {
  pool_.Give(0, Take(4 * kMiB));
  EXPECT_EQ(NumNew({2 * kMiB - 1, 4 * kMiB + 1}), 2);
}

TEST_F(ScratchPoolTest, MembersHaveTheirOwn) {
  pool_.Give(0, Take(kMiB));
  EXPECT_EQ(NumNew({kMiB}, /*rank=*/1), 1);
}

TEST_F(ScratchPoolTest, AFewAreKept) {
  std::vector<Tensor> taken;
  for (size_t i = 0; i < ScratchPool::kMostKept + 1; ++i) {
    taken.push_back(Take(kMiB));
  }
  for (Tensor& tensor : taken) pool_.Give(0, std::move(tensor));
  EXPECT_EQ(NumNew(std::vector<size_t>(ScratchPool::kMostKept + 1, kMiB)), 1);
}

TEST_F(ScratchPoolTest, AFewBytesAreKeptAndTheLatestStays) {
  constexpr size_t kMost = ScratchPool::kMostKeptBytes;
  Tensor first = Take(kMost / 2 + 1);
  Tensor second = Take(kMost / 2);
  const std::byte* const latest = second.data();
  pool_.Give(0, std::move(first));
  pool_.Give(0, std::move(second));
  EXPECT_EQ(Take(kMost / 2).data(), latest);
  EXPECT_EQ(NumNew({kMost / 2}), 1);
}

TEST_F(ScratchPoolTest, WhatIsVeryLargeIsNotKeptAndDrivesNothingOut) {
  pool_.Give(0, Take(kMiB));
  pool_.Give(0, Take(ScratchPool::kMostKeptBytes + 1));
  EXPECT_EQ(NumNew({kMiB, ScratchPool::kMostKeptBytes + 1}), 1);
}

}  // namespace scratch_pool_test
}  // namespace tutti
