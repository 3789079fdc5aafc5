#include "gpu/cuda_host_calls.h"

#include <memory>

#include "gtest/gtest.h"

namespace tutti {
namespace {

TEST(CudaHostCallsTest, WorkRunsOnce) {
  int runs = 0;
  void* const call = CudaHostCalls::Get().Add(&runs, [&runs] { ++runs; });
  CudaHostCalls::Run(call);
  CudaHostCalls::Run(call);
  EXPECT_EQ(runs, 1);
}

TEST(CudaHostCallsTest, WorkThatIsDroppedIsDestroyedAndNeverRuns) {
  CudaHostCalls& calls = CudaHostCalls::Get();
  const auto token = std::make_shared<int>(0);
  const int one = 0, other = 0;
  const auto work = [token] { ++*token; };
  void* const dropped = calls.Add(&one, work);
  void* const dropped_with_owner = calls.Add(&one, work);
  void* const kept = calls.Add(&other, work);
  calls.Drop(dropped);
  calls.DropAllOf(&one);
  EXPECT_EQ(token.use_count(), 3);  // Here, in `work` and in the one kept.
  CudaHostCalls::Run(dropped);
  CudaHostCalls::Run(dropped_with_owner);
  EXPECT_EQ(*token, 0);
  CudaHostCalls::Run(kept);
  EXPECT_EQ(*token, 1);
}

}  // namespace
}  // namespace tutti
