// Prepared collectives have the same results and the same ends as calls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/executor.h"

namespace tutti {
namespace prepared_test {

using absl::StatusCode;
using testing::_;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kNumDevices = 3;
constexpr int64_t kNumElements = 5;

class PreparedTest : public testing::TestWithParam<std::string> {
 protected:
  PreparedTest() {
    for (int device = 0; device < kNumDevices; ++device) {
      inputs_.push_back(*Tensor::Allocate(DType::kFloat32,
                                          TensorShape::Vector(kNumElements)));
      for (int64_t i = 0; i < kNumElements; ++i) {
        // Values whose sums depend on the order.
        FloatsOf(inputs_.back())[i] =
            static_cast<float>(device + 1) / static_cast<float>(3 * i + 1);
      }
    }
  }

  static float* FloatsOf(Tensor& tensor) {
    return reinterpret_cast<float*>(tensor.mutable_data());
  }

  CollectiveRequest Request(InstanceKey instance = 1) const {
    CollectiveRequest request = job_.AllReduceRequest(kNumElements, GetParam());
    request.instance_key = instance;
    return request;
  }

  CollectiveArgs Args(int device, const CollectiveRequest& request) {
    return {.device = job_.devices()[static_cast<size_t>(device)],
            .request = std::make_shared<const CollectiveRequest>(request),
            .input = inputs_[static_cast<size_t>(device)],
            .output = &outputs_[device]};
  }

  void Prepare(CollectiveArgs args) {
    job_.executor().Prepare(std::move(args), [this](auto prepared) {
      errors_.push_back(prepared.status());
      if (prepared.ok()) prepared_.push_back(*std::move(prepared));
    });
  }

  // Prepares all devices, in order.
  void PrepareAll(const CollectiveRequest& request) {
    prepared_.clear();
    for (int i = 0; i < kNumDevices; ++i) Prepare(Args(i, request));
    job_.environment().RunAll();
    ASSERT_THAT(prepared_, SizeIs(kNumDevices));
  }

  void Start(int device, PreparedCollective::Limits limits = {}) {
    prepared_[static_cast<size_t>(device)]->Start(
        std::move(limits), [this, device](absl::Status status) {
          ends_[device].push_back(std::move(status));
        });
    job_.environment().RunAll();
  }

  // Same as Start(), without limits.
  void StartFreely(int device) {
    prepared_[static_cast<size_t>(device)]->Start(
        [this, device](absl::Status status) {
          ends_[device].push_back(std::move(status));
        });
    job_.environment().RunAll();
  }

  // Starts all devices and expects their ends to match.
  void ExpectAllEndWith(const testing::Matcher<absl::Status>& matcher) {
    for (auto& ends : ends_) ends.clear();
    for (int device = 0; device < kNumDevices; ++device) StartFreely(device);
    for (const auto& ends : ends_) EXPECT_THAT(ends, ElementsAre(matcher));
  }

  // Runs `action` in a callback of the group's end, after the group is formed
  // again, and most likely before member 0's start has ended.
  void FormGroupAgainAndThen(const std::function<void()>& action) {
    constexpr int kNumOthers = 10;
    PrepareAll(Request());
    ExpectAllEndWith(IsOk());
    StartFreely(0);
    bool is_formed_again = false;
    for (int i = 0; i < kNumOthers; ++i) {
      const CollectiveRequest other = Request(/*instance=*/10 + i);
      OrdinaryResults(other);
      job_.executor().ExecuteAsync(Args(0, other), [&](const absl::Status&) {
        if (std::exchange(is_formed_again, true)) return;
        PrepareAll(Request());
        ends_[1].clear();
        action();
      });
    }
    job_.environment().RunAll();
    job_.resolver().EndGroup(Request().group_key, absl::AbortedError("enough"));
    job_.environment().RunAll();
    EXPECT_TRUE(is_formed_again);
  }

  // Results of ordinary calls.
  std::vector<std::string> OrdinaryResults(const CollectiveRequest& request) {
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

  LocalJob job_{{.devices_per_task = kNumDevices}};
  std::vector<Tensor> inputs_;
  Tensor outputs_[kNumDevices];
  std::vector<absl::Status> errors_;  // Errors of Prepare(), in order.
  std::vector<std::shared_ptr<PreparedCollective>> prepared_;
  std::vector<absl::Status> ends_[kNumDevices];
};

INSTANTIATE_TEST_SUITE_P(Implementations, PreparedTest,
                         testing::Values("LocalReduce", "RingReduce",
                                         "TreeReduce", "ShuffleReduce",
                                         "RecursiveDoublingReduce"),
                         [](const auto& info) { return info.param; });

TEST_P(PreparedTest, StartsHaveTheBitsOfCalls) {
  const auto ordinary = OrdinaryResults(Request(/*instance=*/2));
  PrepareAll(Request());
  EXPECT_EQ(prepared_[0]->params().instance->impl_details.implementation,
            GetParam());
  for (int i = 0; i < 5; ++i) {
    ClearOutputs();
    ExpectAllEndWith(IsOk());
    EXPECT_EQ(Results(), ordinary);
    EXPECT_EQ(BytesOf(outputs_[1]), ordinary[1]);  // Prepare() allocated it.
  }
}

TEST_P(PreparedTest, StartsReadTheInputsOfTheDay) {
  PrepareAll(Request());
  ExpectAllEndWith(IsOk());
  for (Tensor& input : inputs_) {
    for (int64_t i = 0; i < kNumElements; ++i) FloatsOf(input)[i] = 2;
  }
  ExpectAllEndWith(IsOk());
  for (int64_t i = 0; i < kNumElements; ++i) {
    EXPECT_EQ(FloatsOf(outputs_[2])[i], 2 * kNumDevices);
  }
}

TEST_P(PreparedTest, RunsInPlace) {
  const auto ordinary = OrdinaryResults(Request(/*instance=*/2));
  for (int device = 0; device < kNumDevices; ++device) {
    outputs_[device] = inputs_[static_cast<size_t>(device)];
  }
  PrepareAll(Request());
  ExpectAllEndWith(IsOk());
  EXPECT_EQ(Results(), ordinary);
}

TEST_P(PreparedTest, MembersMayCallWhatOthersStart) {
  const auto ordinary = OrdinaryResults(Request());
  PrepareAll(Request());
  for (int i = 0; i < 3; ++i) {
    StartFreely(0);
    job_.executor().ExecuteAsync(Args(1, Request()), [](absl::Status status) {
      EXPECT_THAT(status, IsOk());
    });
    Start(2, TwoSeconds());
    EXPECT_EQ(Results(), ordinary);
  }
  EXPECT_THAT(ends_[0], AllOf(SizeIs(3), Each(IsOk())));
  EXPECT_THAT(ends_[2], AllOf(SizeIs(3), Each(IsOk())));
}

TEST_P(PreparedTest, DoneMayStartAgain) {
  PrepareAll(Request());
  int num_left[kNumDevices];
  std::function<void(int)> start = [&](int device) {
    prepared_[static_cast<size_t>(device)]->Start([&, device](absl::Status s) {
      ASSERT_THAT(s, IsOk());
      if (--num_left[device] > 0) start(device);
    });
  };
  for (int device = 0; device < kNumDevices; ++device) {
    num_left[device] = 20'000;
    start(device);
  }
  job_.environment().RunAll();
  EXPECT_THAT(num_left, Each(0));
}

TEST_P(PreparedTest, AStartBeforeTheEndOfTheLastOneIsRefusedAndChangesNothing) {
  PrepareAll(Request());
  StartFreely(0);
  StartFreely(0);
  Start(0, TwoSeconds());
  EXPECT_THAT(ends_[0],
              AllOf(SizeIs(2),
                    Each(StatusIs(StatusCode::kFailedPrecondition,
                                  AllOf(HasSubstr("device:CPU:0"),
                                        HasSubstr("instance 1"),
                                        HasSubstr("before its last start"))))));
  ends_[0].clear();
  StartFreely(1);
  StartFreely(2);
  for (const auto& ends : ends_) EXPECT_THAT(ends, ElementsAre(IsOk()));
  ExpectAllEndWith(IsOk());
}

TEST_P(PreparedTest, AnAbortEndsRunningAndLaterStarts) {
  PrepareAll(Request());
  StartFreely(0);
  StartFreely(1);
  job_.executor().StartAbort(absl::DataLossError("first"));
  job_.environment().RunAll();
  const auto first = StatusIs(StatusCode::kDataLoss, HasSubstr("first"));
  EXPECT_THAT(ends_[0], ElementsAre(first));
  EXPECT_THAT(ends_[1], ElementsAre(first));
  ExpectAllEndWith(first);
}

TEST_P(PreparedTest, StartsOfACleanedUpStepAreCancelled) {
  PrepareAll(Request());
  job_.manager().Cleanup(1);
  ExpectAllEndWith(StatusIs(StatusCode::kCancelled, HasSubstr("cleaned up")));
}

TEST_P(PreparedTest, ACancellationEndsOneExecutionOnAllMembers) {
  PrepareAll(Request());
  const auto token = std::make_shared<Cancellation>();
  StartFreely(0);
  Start(1, {.cancellation = token});
  token->Cancel(absl::CancelledError("changed my mind"));
  job_.environment().RunAll();
  StartFreely(2);
  for (const auto& ends : ends_) {
    EXPECT_THAT(ends, ElementsAre(StatusIs(StatusCode::kCancelled,
                                           HasSubstr("changed my mind"))));
  }
  ExpectAllEndWith(IsOk());
}

TEST_P(PreparedTest, ADeadlineSaysWhoHadNotArrived) {
  PrepareAll(Request());
  StartFreely(0);
  Start(1, TwoSeconds());
  job_.environment().Advance(absl::Seconds(3));
  StartFreely(2);
  for (const auto& ends : ends_) {
    EXPECT_THAT(ends, ElementsAre(StatusIs(
                          StatusCode::kDeadlineExceeded,
                          AllOf(HasSubstr("run phase"), HasSubstr("rank 2"),
                                HasSubstr("not arrived")))));
  }
  ExpectAllEndWith(IsOk());
  EXPECT_EQ(job_.environment().num_alarms(), 0u);
}

TEST_P(PreparedTest, DestroyedWhileItRunsItEndsAllTheSame) {
  PrepareAll(Request());
  StartFreely(0);
  prepared_[0].reset();
  StartFreely(1);
  prepared_[2]->Start([this](absl::Status status) {
    prepared_[2].reset();
    ends_[2].push_back(std::move(status));
  });
  job_.environment().RunAll();
  for (const auto& ends : ends_) EXPECT_THAT(ends, ElementsAre(IsOk()));
}

TEST_P(PreparedTest, DoneMayEndTheStep) {
  PrepareAll(Request());
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
  PrepareAll(Request());
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
  EXPECT_THAT(ends_[1],
              ElementsAre(IsOk(), StatusIs(StatusCode::kDataLoss, _)));
  EXPECT_EQ(given.use_count(), 1);
}

TEST_P(PreparedTest, AGoodStartAfterACancelledOneHasTheBitsOfACall) {
  const auto ordinary = OrdinaryResults(Request(/*instance=*/2));
  PrepareAll(Request());
  for (int device = 0; device < kNumDevices; ++device) {
    for (auto& ends : ends_) ends.clear();
    const auto token = std::make_shared<Cancellation>();
    Start(device, {.cancellation = token});
    StartFreely((device + 1) % kNumDevices);
    token->Cancel(absl::CancelledError("changed my mind"));
    job_.environment().RunAll();
    StartFreely((device + 2) % kNumDevices);
    for (const auto& ends : ends_) {
      EXPECT_THAT(ends, ElementsAre(StatusIs(StatusCode::kCancelled, _)));
    }
    ClearOutputs();
    ExpectAllEndWith(IsOk());
    EXPECT_EQ(Results(), ordinary);
  }
}

TEST_P(PreparedTest, TheEndOfTheGroupEndsTheStartAndLaterOnesJoinTheNext) {
  const auto ordinary = OrdinaryResults(Request());
  PrepareAll(Request());
  StartFreely(0);
  job_.resolver().EndGroup(1, absl::AbortedError("member lost"));
  job_.environment().RunAll();
  const auto lost = StatusIs(StatusCode::kAborted, HasSubstr("member lost"));
  EXPECT_THAT(ends_[0], ElementsAre(lost));
  StartFreely(1);
  StartFreely(2);
  EXPECT_THAT(ends_[1], ElementsAre(lost));
  for (int i = 0; i < 3; ++i) {
    ClearOutputs();
    ExpectAllEndWith(IsOk());
    EXPECT_EQ(Results(), ordinary);
  }
}

TEST_P(PreparedTest, AStartWhileTheGroupIsFormedAgainEnds) {
  FormGroupAgainAndThen([this] { StartFreely(1); });
  EXPECT_THAT(ends_[1], ElementsAre(StatusIs(StatusCode::kAborted, _)));
}

TEST_P(PreparedTest, ACallWhileTheGroupIsFormedAgainEnds) {
  FormGroupAgainAndThen([this] {
    job_.executor().ExecuteAsync(Args(1, Request()), [this](absl::Status end) {
      ends_[1].push_back(std::move(end));
    });
  });
  EXPECT_THAT(ends_[1], ElementsAre(StatusIs(StatusCode::kAborted, _)));
}

TEST_P(PreparedTest, WaitsForWhatItDependsOn) {
  CollectiveRequest dependent = Request(/*instance=*/2);
  dependent.impl_details.dependencies = {{1, 1}};
  PrepareAll(dependent);
  for (int device = 0; device < kNumDevices; ++device) StartFreely(device);
  for (const auto& ends : ends_) EXPECT_THAT(ends, IsEmpty());
  OrdinaryResults(Request());
  for (const auto& ends : ends_) EXPECT_THAT(ends, ElementsAre(IsOk()));
}

TEST_P(PreparedTest, PreparationFailsOnAllWhereMembersDisagree) {
  for (int device = 0; device < kNumDevices; ++device) {
    CollectiveRequest request = Request();
    if (device == 1) request.merge_op = ReductionKind::kMax;
    Prepare(Args(device, request));
  }
  job_.environment().RunAll();
  EXPECT_THAT(errors_, AllOf(SizeIs(kNumDevices),
                             Each(StatusIs(StatusCode::kInvalidArgument,
                                           HasSubstr("merge op")))));
}

TEST_P(PreparedTest, PreparationWithoutAMemberEndsAtItsDeadline) {
  for (int device = 0; device < 2; ++device) {
    CollectiveArgs args = Args(device, Request());
    args.deadline = TwoSeconds().deadline;
    Prepare(std::move(args));
  }
  job_.environment().Advance(absl::Seconds(3));
  EXPECT_THAT(errors_,
              AllOf(SizeIs(2), Each(StatusIs(StatusCode::kDeadlineExceeded,
                                             HasSubstr("2 of 3 members")))));
  errors_.clear();
  Prepare(Args(2, Request()));  // Gets the same error.
  EXPECT_THAT(errors_, ElementsAre(StatusIs(StatusCode::kDeadlineExceeded,
                                            HasSubstr("2 of 3 members"))));
  PrepareAll(Request());
  ExpectAllEndWith(IsOk());
}

TEST_P(PreparedTest, PreparationIsCancelled) {
  const auto token = std::make_shared<Cancellation>();
  CollectiveArgs args = Args(0, Request());
  args.cancellation = token;
  Prepare(std::move(args));
  EXPECT_THAT(errors_, IsEmpty());
  token->Cancel(absl::CancelledError("changed my mind"));
  job_.environment().RunAll();
  EXPECT_THAT(errors_, ElementsAre(StatusIs(StatusCode::kCancelled,
                                            HasSubstr("changed my mind"))));
}

TEST_P(PreparedTest, PreparationInAnAbortedStepHasItsStatus) {
  job_.executor().StartAbort(absl::DataLossError("first"));
  Prepare(Args(0, Request()));
  EXPECT_THAT(errors_,
              ElementsAre(StatusIs(StatusCode::kDataLoss, HasSubstr("first"))));
}

TEST_P(PreparedTest, PreparationChecksTheArguments) {
  CollectiveArgs numbered = Args(0, Request());
  numbered.execution = 3;
  Prepare(std::move(numbered));
  CollectiveArgs nobody = Args(0, Request());
  nobody.device = nullptr;
  Prepare(std::move(nobody));
  EXPECT_THAT(errors_, ElementsAre(StatusIs(StatusCode::kInvalidArgument,
                                            HasSubstr("prepared execution 3")),
                                   StatusIs(StatusCode::kInvalidArgument,
                                            HasSubstr("without a device"))));
  errors_.clear();
  const CollectiveRequest request = Request(/*instance=*/2);
  CollectiveArgs no_input = Args(kNumDevices - 1, request);
  no_input.input = Tensor();
  for (int i = 0; i < kNumDevices - 1; ++i) Prepare(Args(i, request));
  Prepare(std::move(no_input));
  job_.environment().RunAll();
  EXPECT_THAT(errors_, testing::Contains(StatusIs(StatusCode::kInvalidArgument,
                                                  HasSubstr("no input"))));
}

TEST_P(PreparedTest, AStartOfAMemberThatGivesNumbersEndsItOnAllMembers) {
  PrepareAll(Request());
  for (const uint64_t execution : {0, 1}) {
    for (auto& ends : ends_) ends.clear();
    for (int device = 0; device < kNumDevices; ++device) {
      if (device == 0 && execution == 1) {
        StartFreely(0);
        continue;
      }
      CollectiveArgs args = Args(device, Request());
      args.execution = execution;
      job_.executor().ExecuteAsync(std::move(args),
                                   [this, device](absl::Status status) {
                                     ends_[device].push_back(std::move(status));
                                   });
    }
    job_.environment().RunAll();
    for (const auto& ends : ends_) {
      EXPECT_THAT(ends, ElementsAre(execution == 0
                                        ? testing::Matcher<absl::Status>(IsOk())
                                        : StatusIs(StatusCode::kInvalidArgument,
                                                   HasSubstr("not now"))));
    }
  }
}

TEST_P(PreparedTest, PreparingCountsNoExecution) {
  PrepareAll(Request());
  prepared_.clear();
  PrepareAll(Request());
  StartFreely(0);
  job_.environment().RunAll();
  OrdinaryResults(Request(/*instance=*/2));
  job_.executor().ExecuteAsync(Args(1, Request()), [](absl::Status) {});
  job_.executor().ExecuteAsync(Args(2, Request()), [](absl::Status) {});
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
