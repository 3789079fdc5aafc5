#include "gpu/runtime/cuda_host_calls.h"

#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace cuda_host_calls_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Records the statuses that calls receive.
class Told {
 public:
  StatusCallback Keep() {
    return [this](const absl::Status& status) { statuses_.push_back(status); };
  }
  const std::vector<absl::Status>& statuses() const { return statuses_; }

 private:
  std::vector<absl::Status> statuses_;
};

TEST(CudaHostCallsTest, ACallRunsOnce) {
  Told reported;
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
  Told failed, failed_with_gpu, other_gpu, other_owner;
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
  Told ended, kept;
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

}  // namespace cuda_host_calls_test
}  // namespace tutti
