#include "gpu/nccl/nccl_finalization.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace nccl_finalization_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kMoment = absl::Milliseconds(1);

// A communicator of two ranks of this process.
class NcclFinalizationTest : public ::testing::Test {
 protected:
  ~NcclFinalizationTest() override { environment_.RunAll(); }

  static std::vector<NcclRank> Ranks() {
    return {{.rank = 0, .gpu = 0}, {.rank = 1, .gpu = 1}};
  }
  std::vector<NcclComm> MakeComms() {
    return nccl_->CommInitRanks(nccl_->NewUniqueId().value(), 2, Ranks())
        .value();
  }
  void Start(const std::vector<NcclComm>& comms) {
    NcclFinalization::Start(nccl_, comms, environment_.get());
  }
  void ExpectCounts(int living, int destroys, int aborts) {
    EXPECT_EQ(network_->counts().living, living);
    EXPECT_EQ(network_->counts().destroys, destroys);
    EXPECT_EQ(network_->counts().aborts, aborts);
  }

  SimulatedEnvironment environment_{1};
  FakeGpuRuntime gpus_{{.num_gpus = 2, .environment = environment_.get()}};
  const std::shared_ptr<FakeNcclNetwork> network_ =
      std::make_shared<FakeNcclNetwork>();
  const std::shared_ptr<FakeNcclRuntime> nccl_ =
      std::make_shared<FakeNcclRuntime>(network_, &gpus_);
};

TEST_F(NcclFinalizationTest, IsWorkOfTheQueueAndDestroysAll) {
  Start(MakeComms());
  ExpectCounts(/*living=*/2, /*destroys=*/0, /*aborts=*/0);
  environment_.RunAll();
  ExpectCounts(/*living=*/0, /*destroys=*/2, /*aborts=*/0);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

TEST_F(NcclFinalizationTest, WhatTakesLongIsAskedForByTheClock) {
  const auto comms = MakeComms();
  network_->SetLooks(5);
  Start(comms);
  environment_.RunAll();
  ExpectCounts(/*living=*/2, /*destroys=*/0, /*aborts=*/0);
  environment_.Advance(NcclFinalization::kLongest - kMoment);
  ExpectCounts(/*living=*/0, /*destroys=*/2, /*aborts=*/0);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

TEST_F(NcclFinalizationTest, WhatNeverEndsIsAborted) {
  network_->HangFinalizes(true);
  Start(MakeComms());
  environment_.RunAll();
  environment_.Advance(NcclFinalization::kLongest - kMoment);
  ExpectCounts(/*living=*/2, /*destroys=*/0, /*aborts=*/0);
  environment_.Advance(kMoment);
  ExpectCounts(/*living=*/0, /*destroys=*/0, /*aborts=*/2);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

TEST_F(NcclFinalizationTest, WhatFailsIsAborted) {
  const auto comms = MakeComms();
  network_->FailAll(absl::InternalError("the link is down"));
  Start(comms);
  environment_.RunAll();
  ExpectCounts(/*living=*/0, /*destroys=*/0, /*aborts=*/2);
}

TEST_F(NcclFinalizationTest, EndsAGroupThatWasNotCancelled) {
  auto group = std::make_shared<NcclGroup>();
  const auto cancellation = std::make_shared<Cancellation>();
  absl::Status launched = absl::UnknownError("not called");
  group->Add(
      [&] {
        return NcclGroup::Options{.nccl = nccl_,
                                  .id = nccl_->NewUniqueId().value(),
                                  .size = 2,
                                  .ranks = Ranks(),
                                  .environment = environment_.get(),
                                  .cancellation = cancellation};
      },
      {.begin = [](const NcclTicket& /*ticket*/,
                   absl::Span<const NcclComm> comms)
           -> absl::StatusOr<std::vector<NcclPart>> {
         return std::vector<NcclPart>{{.comm = comms[0]}, {.comm = comms[1]}};
       },
       .launched = [&](absl::Status status) { launched = std::move(status); }});
  environment_.RunAll();
  EXPECT_THAT(launched, IsOk());
  group->Ended();
  group.reset();
  environment_.RunAll();
  ExpectCounts(/*living=*/0, /*destroys=*/2, /*aborts=*/0);
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
}

// NCCL hangs in this case.
TEST_F(NcclFinalizationTest, TheDoubleHangsWhereRanksAreFinalizedOneByOne) {
  const auto comms = MakeComms();
  EXPECT_THAT(nccl_->Finalize({comms[0]}), IsOk());
  EXPECT_THAT(nccl_->Finalize({comms[1]}), IsOk());
  EXPECT_FALSE(AreReady(*nccl_, comms).value_or(true));
  EXPECT_THAT(nccl_->Destroy(comms),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank 0 is destroyed before")));
  EXPECT_THAT(nccl_->Abort({comms[1]}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank 1 is aborted without all")));
  EXPECT_THAT(nccl_->Abort(comms), IsOk());
  EXPECT_THAT(network_->Mistakes(),
              ElementsAre(HasSubstr("destroyed"), HasSubstr("aborted")));
}

}  // namespace nccl_finalization_test
}  // namespace tutti
