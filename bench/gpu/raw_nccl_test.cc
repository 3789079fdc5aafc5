#include "bench/gpu/raw_nccl.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "bench/gpu/simulated_machine.h"
#include "gmock/gmock.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RawNcclTest : public ::testing::Test {
 protected:
  ~RawNcclTest() override { environment_.RunAll(); }

  auto Create(RawNccl::Calls calls = RawNccl::Calls::kDoNotBlock) {
    return RawNccl::Create(machine_, nccl_, /*num_gpus=*/2, calls);
  }

  SimulatedEnvironment environment_{1};
  FakeGpuRuntime runtime_{{.num_gpus = 2, .environment = environment_.get()}};
  SimulatedMachine machine_{runtime_, environment_};
  const std::shared_ptr<FakeNcclNetwork> network_ =
      std::make_shared<FakeNcclNetwork>();
  const std::shared_ptr<FakeNcclRuntime> nccl_ =
      std::make_shared<FakeNcclRuntime>(network_, &runtime_);
};

// An all-reduce of no buffers: the double moves nothing.
constexpr NcclCall kEmpty = {.op = NcclOp::kAllReduce};

TEST_F(RawNcclTest, LaunchesOnAllRanksAndLeavesNothing) {
  for (const auto calls :
       {RawNccl::Calls::kDoNotBlock, RawNccl::Calls::kBlock}) {
    const auto raw = Create(calls);
    ASSERT_THAT(raw, IsOk());
    EXPECT_EQ(nccl_->num_blocking(), calls == RawNccl::Calls::kBlock ? 1 : 0);
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT((*raw)->Launch({kEmpty, kEmpty}), IsOk());
    }
    EXPECT_THAT((*raw)->Finish(), IsOk());
  }
  EXPECT_EQ(network_->counts().inits, 2 * 2);
  EXPECT_EQ(network_->counts().launches, 2 * 3);
  EXPECT_EQ(network_->counts().destroys, 2 * 2);
  EXPECT_EQ(network_->counts().living, 0);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
  EXPECT_THAT(runtime_.Mistakes(), IsEmpty());
  EXPECT_THAT(runtime_.Leaks(), IsEmpty());
}

TEST_F(RawNcclTest, WaitsUntilNcclIsReady) {
  network_->SetLooks(5000);  // More than without a pause.
  const auto raw = Create();
  ASSERT_THAT(raw, IsOk());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT((*raw)->Launch({kEmpty, kEmpty}), IsOk());
  }
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

TEST_F(RawNcclTest, DoesNotWaitForEver) {
  network_->HangInits(true);
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 HasSubstr("NCCL was not ready")));
  EXPECT_EQ(network_->counts().aborts, 2);
  EXPECT_EQ(network_->counts().living, 0);
}

TEST_F(RawNcclTest, AfterAnErrorNothingIsLaunched) {
  const auto raw = Create();
  ASSERT_THAT(raw, IsOk());
  network_->FailNextLaunch(absl::InternalError("no luck"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT((*raw)->Launch({kEmpty, kEmpty}),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("no luck")));
  }
  EXPECT_EQ(network_->counts().launches, 1);
  EXPECT_THAT((*raw)->Finish(), Not(IsOk()));
}

}  // namespace
}  // namespace tutti
