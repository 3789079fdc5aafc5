// Prepared collectives have the same results and the same ends as calls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tests/local/repeated_testing.h"
#include "tutti/executor.h"

namespace tutti {
namespace prepared_test {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class PreparedTest : public RepeatedFixture,
                     public testing::WithParamInterface<std::string> {
 protected:
  // Sums of the inputs depend on the order.
  PreparedTest() : RepeatedFixture(GetParam()) {
    for (int device = 0; device < kNumDevices; ++device) {
      for (int64_t i = 0; i < kNumElements; ++i) {
        FloatsOf(inputs_[device])[i] =
            static_cast<float>(device + 1) / static_cast<float>(3 * i + 1);
      }
    }
  }

  // Starts all devices and expects their ends to match.
  void ExpectAllEndWith(const testing::Matcher<absl::Status>& matcher) {
    ClearEnds();
    for (int device = 0; device < kNumDevices; ++device) Start(device);
    ExpectAllEnded(matcher);
  }

  // Runs `action` in a callback of the group's end, after the group is formed
  // again, and most likely before member 0's start has ended.
  void FormGroupAgainAndThen(const std::function<void()>& action) {
    constexpr int kNumOthers = 10;
    PrepareAll();
    ExpectAllEndWith(IsOk());
    Start(0);
    bool is_formed_again = false;
    for (int i = 0; i < kNumOthers; ++i) {
      const auto other = Request(/*instance=*/10 + i);
      OrdinaryResults(other);
      job_.executor().ExecuteAsync(Args(0, other), [&](const absl::Status&) {
        if (std::exchange(is_formed_again, true)) return;
        PrepareAll();
        ends_[1].clear();
        action();
      });
    }
    job_.environment().RunAll();
    job_.resolver().EndGroup(request_->group_key, absl::AbortedError("enough"));
    job_.environment().RunAll();
    EXPECT_TRUE(is_formed_again);
  }

  // Results of ordinary calls.
  std::vector<std::string> OrdinaryResults(
      const std::shared_ptr<const CollectiveRequest>& request) {
    Tensor outputs[kNumDevices];
    for (int device = 0; device < kNumDevices; ++device) {
      CollectiveArgs args = Args(device, request);
      args.output = &outputs[device];
      job_.executor().ExecuteAsync(std::move(args), [](absl::Status status) {
        EXPECT_THAT(status, IsOk());
      });
    }
    job_.environment().RunAll();
    std::vector<std::string> results;
    for (const Tensor& output : outputs) results.push_back(BytesOf(output));
    return results;
  }

  std::vector<std::string> Results() const {
    std::vector<std::string> results;
    for (const auto& prepared : prepared_) {
      results.push_back(BytesOf(prepared->output()));
    }
    return results;
  }

  void ClearOutputs() {
    for (Tensor& output : outputs_) {
      std::memset(output.mutable_data(), 0xff, output.size_bytes());
    }
  }

  static std::string BytesOf(const Tensor& tensor) {
    return std::string(reinterpret_cast<const char*>(tensor.data()),
                       tensor.size_bytes());
  }

  PreparedCollective::Limits TwoSeconds() {
    return {.deadline =
                job_.environment().get().clock->Now() + absl::Seconds(2)};
  }
};

INSTANTIATE_TEST_SUITE_P(Implementations, PreparedTest,
                         testing::Values("LocalReduce", "RingReduce",
                                         "TreeReduce", "ShuffleReduce",
                                         "RecursiveDoublingReduce"),
                         [](const auto& info) { return info.param; });

TEST_P(PreparedTest, StartsHaveTheBitsOfCalls) {
  const auto ordinary = OrdinaryResults(Request(/*instance=*/2));
  PrepareAll();
  EXPECT_EQ(prepared_[0]->params().instance->impl_details.implementation,
            GetParam());
  for (int i = 0; i < 5; ++i) {
    ClearOutputs();
    ExpectAllEndWith(IsOk());
    EXPECT_EQ(Results(), ordinary);
    EXPECT_EQ(BytesOf(outputs_[1]), ordinary[1]);  // Prepare() allocated it.
  }
}

TEST_P(PreparedTest, RunsInPlace) {
  const auto ordinary = OrdinaryResults(Request(/*instance=*/2));
  for (int device = 0; device < kNumDevices; ++device) {
    outputs_[device] = inputs_[static_cast<size_t>(device)];
  }
  PrepareAll();
  ExpectAllEndWith(IsOk());
  EXPECT_EQ(Results(), ordinary);
}

TEST_P(PreparedTest, MembersMayCallWhatOthersStart) {
  const auto ordinary = OrdinaryResults(Request());
  PrepareAll();
  for (int i = 0; i < 3; ++i) {
    Start(0);
    job_.executor().ExecuteAsync(
        Args(1), [](absl::Status status) { EXPECT_THAT(status, IsOk()); });
    Start(2, TwoSeconds());
    EXPECT_EQ(Results(), ordinary);
  }
  EXPECT_THAT(ends_[0], AllOf(SizeIs(3), Each(IsOk())));
  EXPECT_THAT(ends_[2], AllOf(SizeIs(3), Each(IsOk())));
}

TEST_P(PreparedTest, AStartBeforeTheEndOfTheLastOneIsRefusedAndChangesNothing) {
  PrepareAll();
  Start(0);
  Start(0);
  Start(0, TwoSeconds());
  EXPECT_THAT(
      ends_[0],
      AllOf(SizeIs(2), Each(IsFailedPrecondition("device:CPU:0", "instance 1",
                                                 "before its last start"))));
  ends_[0].clear();
  Start(1);
  Start(2);
  ExpectAllEnded(IsOk());
  ExpectAllEndWith(IsOk());
}

TEST_P(PreparedTest, StartsOfACleanedUpStepAreCancelled) {
  PrepareAll();
  job_.manager().Cleanup(1);
  ExpectAllEndWith(IsCancelled("cleaned up"));
}

TEST_P(PreparedTest, ADeadlineSaysWhoHadNotArrived) {
  PrepareAll();
  Start(0);
  Start(1, TwoSeconds());
  job_.environment().Advance(absl::Seconds(3));
  Start(2);
  ExpectAllEnded(IsDeadlineExceeded("run phase", "rank 2", "not arrived"));
  ExpectAllEndWith(IsOk());
  EXPECT_EQ(job_.environment().num_alarms(), 0u);
}

TEST_P(PreparedTest, DestroyedWhileItRunsItEndsAllTheSame) {
  PrepareAll();
  Start(0);
  prepared_[0].reset();
  Start(1);
  prepared_[2]->Start([this](absl::Status status) {
    prepared_[2].reset();
    ends_[2].push_back(std::move(status));
  });
  job_.environment().RunAll();
  ExpectAllEnded(IsOk());
}

TEST_P(PreparedTest, DoneMayEndTheStep) {
  PrepareAll();
  ExpectAllEndWith(IsOk());
  int num_left = kNumDevices;
  for (auto& prepared : prepared_) {
    prepared->Start([&](const absl::Status& status) {
      EXPECT_THAT(status, IsOk());
      prepared.reset();
      if (--num_left == 0) job_.manager().Cleanup(1);
    });
  }
  job_.environment().RunAll();
  EXPECT_EQ(num_left, 0);
}

TEST_P(PreparedTest, NothingHoldsWhatAStartWasGivenOnceItHasEnded) {
  PrepareAll();
  const auto given = std::make_shared<int>();
  const auto start = [&](int device) {
    prepared_[static_cast<size_t>(device)]->Start(
        [given, &ends = ends_[device]](absl::Status status) {
          ends.push_back(std::move(status));
        });
  };
  for (int device = 0; device < kNumDevices; ++device) start(device);
  job_.environment().RunAll();
  EXPECT_EQ(given.use_count(), 1);
  start(0);
  start(1);
  job_.executor().StartAbort(absl::DataLossError("first"));
  job_.environment().RunAll();
  EXPECT_THAT(ends_[1], ElementsAre(IsOk(), IsDataLoss()));
  EXPECT_EQ(given.use_count(), 1);
}

TEST_P(PreparedTest, AGoodStartAfterACancelledOneHasTheBitsOfACall) {
  const auto ordinary = OrdinaryResults(Request(/*instance=*/2));
  PrepareAll();
  for (int device = 0; device < kNumDevices; ++device) {
    ClearEnds();
    const auto token = std::make_shared<Cancellation>();
    Start(device, {.cancellation = token});
    Start((device + 1) % kNumDevices);
    token->Cancel(absl::CancelledError("changed my mind"));
    job_.environment().RunAll();
    Start((device + 2) % kNumDevices);
    ExpectAllEnded(IsCancelled());
    ClearOutputs();
    ExpectAllEndWith(IsOk());
    EXPECT_EQ(Results(), ordinary);
  }
}

TEST_P(PreparedTest, AStartWhileTheGroupIsFormedAgainEnds) {
  FormGroupAgainAndThen([this] { Start(1); });
  EXPECT_THAT(ends_[1], ElementsAre(IsAborted()));
}

TEST_P(PreparedTest, ACallWhileTheGroupIsFormedAgainEnds) {
  FormGroupAgainAndThen(
      [this] { job_.executor().ExecuteAsync(Args(1), AddEnd(1)); });
  EXPECT_THAT(ends_[1], ElementsAre(IsAborted()));
}

TEST_P(PreparedTest, WaitsForWhatItDependsOn) {
  CollectiveRequest dependent = *Request(/*instance=*/2);
  dependent.impl_details.dependencies = {{1, 1}};
  PrepareAll(std::make_shared<const CollectiveRequest>(dependent));
  for (int device = 0; device < kNumDevices; ++device) Start(device);
  for (const auto& ends : ends_) EXPECT_THAT(ends, IsEmpty());
  OrdinaryResults(Request());
  ExpectAllEnded(IsOk());
}

TEST_P(PreparedTest, PreparationFailsOnAllWhereMembersDisagree) {
  for (int device = 0; device < kNumDevices; ++device) {
    CollectiveRequest request = *request_;
    if (device == 1) request.merge_op = ReductionKind::kMax;
    Prepare(Args(device, std::make_shared<const CollectiveRequest>(request)));
  }
  job_.environment().RunAll();
  EXPECT_THAT(errors_,
              AllOf(SizeIs(kNumDevices), Each(IsInvalidArgument("merge op"))));
}

TEST_P(PreparedTest, PreparationWithoutAMemberEndsAtItsDeadline) {
  for (int device = 0; device < 2; ++device) {
    CollectiveArgs args = Args(device);
    args.deadline = TwoSeconds().deadline;
    Prepare(std::move(args));
  }
  job_.environment().Advance(absl::Seconds(3));
  EXPECT_THAT(errors_,
              AllOf(SizeIs(2), Each(IsDeadlineExceeded("2 of 3 members"))));
  errors_.clear();
  Prepare(Args(2));  // Gets the same error.
  EXPECT_THAT(errors_, ElementsAre(IsDeadlineExceeded("2 of 3 members")));
  PrepareAll();
  ExpectAllEndWith(IsOk());
}

TEST_P(PreparedTest, PreparationIsCancelled) {
  const auto token = std::make_shared<Cancellation>();
  CollectiveArgs args = Args(0);
  args.cancellation = token;
  Prepare(std::move(args));
  EXPECT_THAT(errors_, IsEmpty());
  token->Cancel(absl::CancelledError("changed my mind"));
  job_.environment().RunAll();
  EXPECT_THAT(errors_, ElementsAre(IsCancelled("changed my mind")));
}

TEST_P(PreparedTest, PreparationInAnAbortedStepHasItsStatus) {
  job_.executor().StartAbort(absl::DataLossError("first"));
  Prepare(Args(0));
  EXPECT_THAT(errors_, ElementsAre(IsDataLoss("first")));
}

TEST_P(PreparedTest, PreparationChecksTheArguments) {
  CollectiveArgs numbered = Args(0);
  numbered.execution = 3;
  Prepare(std::move(numbered));
  CollectiveArgs nobody = Args(0);
  nobody.device = nullptr;
  Prepare(std::move(nobody));
  EXPECT_THAT(errors_, ElementsAre(IsInvalidArgument("prepared execution 3"),
                                   IsInvalidArgument("without a device")));
  errors_.clear();
  const auto request = Request(/*instance=*/2);
  CollectiveArgs no_input = Args(kNumDevices - 1, request);
  no_input.input = Tensor();
  for (int i = 0; i < kNumDevices - 1; ++i) Prepare(Args(i, request));
  Prepare(std::move(no_input));
  job_.environment().RunAll();
  EXPECT_THAT(errors_, testing::Contains(IsInvalidArgument("no input")));
}

TEST_P(PreparedTest, AStartOfAMemberThatGivesNumbersEndsItOnAllMembers) {
  PrepareAll();
  for (const uint64_t execution : {0, 1}) {
    ClearEnds();
    for (int device = 0; device < kNumDevices; ++device) {
      if (device == 0 && execution == 1) {
        Start(0);
        continue;
      }
      CollectiveArgs args = Args(device);
      args.execution = execution;
      job_.executor().ExecuteAsync(std::move(args), AddEnd(device));
    }
    job_.environment().RunAll();
    ExpectAllEnded(execution == 0 ? testing::Matcher<absl::Status>(IsOk())
                                  : IsInvalidArgument("not now"));
  }
}

TEST_P(PreparedTest, PreparingCountsNoExecution) {
  PrepareAll();
  prepared_.clear();
  PrepareAll();
  Start(0);
  job_.environment().RunAll();
  OrdinaryResults(Request(/*instance=*/2));
  job_.executor().ExecuteAsync(Args(1), [](absl::Status) {});
  job_.executor().ExecuteAsync(Args(2), [](absl::Status) {});
  job_.environment().RunAll();
  EXPECT_THAT(ends_[0], ElementsAre(IsOk()));
}

TEST(PrepareAloneTest, ALongChainNeedsNoStack) {
  constexpr int kLength = 100'000;
  LocalJob job({});
  const auto request =
      std::make_shared<const CollectiveRequest>(job.AllReduceRequest(4));
  const Tensor input = *Tensor::Allocate(request->dtype, request->shape);
  Tensor output = input;
  int num_prepared = 0;
  std::function<void()> prepare = [&] {
    job.executor().Prepare({.device = job.devices()[0],
                            .request = request,
                            .input = input,
                            .output = &output},
                           [&](const auto& prepared) {
                             ASSERT_THAT(prepared.status(), IsOk());
                             if (++num_prepared < kLength) prepare();
                           });
  };
  prepare();
  job.environment().RunAll();
  EXPECT_EQ(num_prepared, kLength);
}

}  // namespace prepared_test
}  // namespace tutti
