// Repeated calls of one request, whose instance is settled, and starts of what
// was prepared, have the results and the ends of first calls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace repeated_test {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Three devices that take part in one all-reduce again and again, by calls or
// by starts of what they prepared.
class RepeatedFixture : public testing::Test {
 protected:
  static constexpr int kNumDevices = 3;
  static constexpr int64_t kNumElements = 5;

  explicit RepeatedFixture(std::string implementation)
      : implementation_(std::move(implementation)) {
    for (int device = 0; device < kNumDevices; ++device) {
      inputs_.push_back(*Tensor::Allocate(DType::kFloat32,
                                          TensorShape::Vector(kNumElements)));
    }
    SetInputs(1);
  }

  static float* FloatsOf(Tensor& tensor) {
    return reinterpret_cast<float*>(tensor.mutable_data());
  }

  // Sets the inputs of device d to (d + 1) * factor.
  void SetInputs(float factor) {
    for (int device = 0; device < kNumDevices; ++device) {
      for (int64_t i = 0; i < kNumElements; ++i) {
        FloatsOf(inputs_[device])[i] = static_cast<float>(device + 1) * factor;
      }
    }
  }

  std::vector<float> Result(int device) {
    const float* const begin = FloatsOf(outputs_[device]);
    return std::vector<float>(begin, begin + kNumElements);
  }

  // Expects that all elements of all outputs are `sum`.
  void ExpectResults(int sum) {
    for (int device = 0; device < kNumDevices; ++device) {
      EXPECT_THAT(Result(device), testing::Each(sum)) << "device " << device;
    }
  }

  std::shared_ptr<const CollectiveRequest> Request(
      InstanceKey instance = 1) const {
    CollectiveRequest request =
        job_.AllReduceRequest(kNumElements, implementation_);
    request.instance_key = instance;
    return std::make_shared<const CollectiveRequest>(std::move(request));
  }

  CollectiveArgs Args(
      int device, std::shared_ptr<const CollectiveRequest> request = nullptr) {
    return {.device = job_.devices()[static_cast<size_t>(device)],
            .request = request == nullptr ? request_ : std::move(request),
            .input = inputs_[static_cast<size_t>(device)],
            .output = &outputs_[device]};
  }

  // Returns a callback that adds to the device's ends.
  StatusCallback AddEnd(int device) {
    return [this, device](absl::Status status) {
      ends_[device].push_back(std::move(status));
    };
  }

  void Call(CollectiveArgs args, int device) {
    job_.executor().ExecuteAsync(std::move(args), AddEnd(device));
    job_.environment().RunAll();
  }

  void Prepare(CollectiveArgs args) {
    job_.executor().Prepare(std::move(args), [this](auto prepared) {
      errors_.push_back(prepared.status());
      if (prepared.ok()) prepared_.push_back(*std::move(prepared));
    });
  }

  // Prepares all devices, in order.
  void PrepareAll(std::shared_ptr<const CollectiveRequest> request = nullptr) {
    prepared_.clear();
    for (int i = 0; i < kNumDevices; ++i) Prepare(Args(i, request));
    job_.environment().RunAll();
    ASSERT_THAT(prepared_, testing::SizeIs(kNumDevices));
  }

  void Start(int device) {
    prepared_[static_cast<size_t>(device)]->Start(AddEnd(device));
    job_.environment().RunAll();
  }
  void Start(int device, PreparedCollective::Limits limits) {
    prepared_[static_cast<size_t>(device)]->Start(std::move(limits),
                                                  AddEnd(device));
    job_.environment().RunAll();
  }

  void ClearEnds() {
    for (auto& ends : ends_) ends.clear();
  }
  void ExpectAllEnded(const testing::Matcher<absl::Status>& matcher) {
    for (const auto& ends : ends_) {
      EXPECT_THAT(ends, testing::ElementsAre(matcher));
    }
  }

  const std::string implementation_;
  LocalJob job_{{.devices_per_task = kNumDevices}};
  const std::shared_ptr<const CollectiveRequest> request_ = Request();
  std::vector<Tensor> inputs_;
  Tensor outputs_[kNumDevices];
  std::vector<absl::Status> errors_;  // Errors of Prepare(), in order.
  std::vector<std::shared_ptr<PreparedCollective>> prepared_;
  std::vector<absl::Status> ends_[kNumDevices];
};

// Promises of calls and of starts of what was prepared. The second parameter:
// whether each device prepares once and then starts.
class RepeatedRunsTest
    : public RepeatedFixture,
      public testing::WithParamInterface<std::tuple<std::string, bool>> {
 protected:
  RepeatedRunsTest() : RepeatedFixture(std::get<0>(GetParam())) {
    if (is_prepared_) PrepareAll();
    RunAllAndExpect(IsOk());  // Later calls are repetitions.
  }

  void Run(int device) {
    is_prepared_ ? Start(device) : Call(Args(device), device);
  }

  void RunAndCancel(int device) {
    const auto cancellation = std::make_shared<Cancellation>();
    if (is_prepared_) {
      Start(device, {.cancellation = cancellation});
    } else {
      CollectiveArgs limited = Args(device);
      limited.cancellation = cancellation;
      Call(limited, device);
    }
    cancellation->Cancel(absl::CancelledError("changed my mind"));
    job_.environment().RunAll();
  }

  void RunAllAndExpect(const testing::Matcher<absl::Status>& matcher) {
    ClearEnds();
    for (int device = 0; device < kNumDevices; ++device) Run(device);
    ExpectAllEnded(matcher);
  }

  const bool is_prepared_ = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(
    Implementations, RepeatedRunsTest,
    testing::Combine(testing::Values("LocalReduce", "RingReduce", "TreeReduce",
                                     "ShuffleReduce", "RecursiveDoublingReduce",
                                     "LocalThenRing"),
                     testing::Bool()),
    [](const auto& info) {
      return std::get<0>(info.param) +
             (std::get<1>(info.param) ? "_prepared" : "_called");
    });

TEST_P(RepeatedRunsTest, ReadTheInputsOfTheDay) {
  for (int i = 2; i < 7; ++i) {
    SetInputs(static_cast<float>(i));
    RunAllAndExpect(IsOk());
    ExpectResults(6 * i);
  }
}

TEST_P(RepeatedRunsTest, ACallbackMayBeginTheNextOne) {
  int num_left[kNumDevices];
  std::function<void(int)> run = [&](int device) {
    StatusCallback done = [&, device](absl::Status status) {
      ASSERT_THAT(status, IsOk());
      if (--num_left[device] > 0) run(device);
    };
    if (is_prepared_) return prepared_[device]->Start(std::move(done));
    job_.executor().ExecuteAsync(Args(device), std::move(done));
  };
  for (int device = 0; device < kNumDevices; ++device) {
    num_left[device] = 20'000;
    run(device);
  }
  job_.environment().RunAll();
  EXPECT_THAT(num_left, Each(0));
}

TEST_P(RepeatedRunsTest, AnAbortEndsThoseUnderWayAndLaterOnes) {
  ClearEnds();
  Run(0);
  Run(1);
  job_.executor().StartAbort(absl::DataLossError("first"));
  job_.environment().RunAll();
  EXPECT_THAT(ends_[0], ElementsAre(IsDataLoss("first")));
  EXPECT_THAT(ends_[1], ElementsAre(IsDataLoss("first")));
  RunAllAndExpect(IsDataLoss("first"));
}

TEST_P(RepeatedRunsTest, TheEndOfTheGroupEndsThoseUnderWayAlone) {
  ClearEnds();
  Run(0);
  job_.resolver().EndGroup(1, absl::UnavailableError("lost"));
  job_.environment().RunAll();
  EXPECT_THAT(ends_[0], ElementsAre(IsUnavailable("lost")));
  Run(1);
  Run(2);
  ExpectAllEnded(IsUnavailable("lost"));
  for (int i = 1; i < 4; ++i) {  // In the new generation.
    SetInputs(static_cast<float>(i));
    RunAllAndExpect(IsOk());
    EXPECT_THAT(Result(1), Each(6 * i));
  }
}

TEST_P(RepeatedRunsTest, AnothersLimitEndsThemForThisExecution) {
  for (int device = 0; device < kNumDevices; ++device) {
    ClearEnds();
    SetInputs(static_cast<float>(device + 2));
    Run((device + 1) % kNumDevices);
    RunAndCancel(device);
    Run((device + 2) % kNumDevices);
    ExpectAllEnded(IsCancelled("changed my mind"));
    RunAllAndExpect(IsOk());
    ExpectResults(6 * (device + 2));
  }
}

// Calls alone.
class RepeatedCallsTest : public RepeatedFixture,
                          public testing::WithParamInterface<std::string> {
 protected:
  RepeatedCallsTest() : RepeatedFixture(GetParam()) {
    CallAllAndExpect(IsOk());
  }

  using RepeatedFixture::Call;
  void Call(int device) { Call(Args(device), device); }

  void CallAllAndExpect(const testing::Matcher<absl::Status>& matcher) {
    ClearEnds();
    for (int device = 0; device < kNumDevices; ++device) Call(device);
    ExpectAllEnded(matcher);
  }
};

INSTANTIATE_TEST_SUITE_P(Implementations, RepeatedCallsTest,
                         testing::Values("LocalReduce", "RingReduce",
                                         "TreeReduce", "LocalThenRing"),
                         [](const auto& info) { return info.param; });

TEST_P(RepeatedCallsTest, AllocateAnOutputThatIsNotSet) {
  for (Tensor& output : outputs_) output = Tensor();
  CallAllAndExpect(IsOk());
  ExpectResults(6);
}

TEST_P(RepeatedCallsTest, WhoSharesAnOutputMayHaveItsOwnTheNextTime) {
  Tensor shared[kNumDevices];
  for (int device = 0; device < kNumDevices; ++device) {
    CollectiveArgs args = Args(device);
    args.output = &shared[device];
    args.allow_shared_output = true;
    Call(args, device);
  }
  SetInputs(2);
  CallAllAndExpect(IsOk());
  for (int device = 0; device < kNumDevices; ++device) {
    EXPECT_EQ(FloatsOf(shared[device])[0], 6);
    EXPECT_THAT(Result(device), Each(12));
  }
}

TEST_P(RepeatedCallsTest, NeedNoCallback) {
  for (int device = 0; device < kNumDevices; ++device) {
    FloatsOf(outputs_[device])[0] = 0;
    job_.executor().ExecuteAsync(Args(device), nullptr);
  }
  job_.environment().RunAll();
  ExpectResults(6);
}

TEST_P(RepeatedCallsTest, ManyMayBeUnderWay) {
  constexpr int kUnderWay = 100;
  for (int device = 0; device < kNumDevices; ++device) {
    ends_[device].clear();
    for (int i = 0; i < kUnderWay; ++i) Call(device);
  }
  for (const auto& ends : ends_) {
    EXPECT_THAT(ends, AllOf(SizeIs(kUnderWay), Each(IsOk())));
  }
}

TEST_P(RepeatedCallsTest, KeepNeitherBuffersNorWhatTheCallbackHolds) {
  const auto held = std::make_shared<int>();
  int num_freed = 0;
  const auto wrapped = [&num_freed](Tensor& tensor) {
    return *Tensor::Wrap(DType::kFloat32, tensor.shape(), tensor.mutable_data(),
                         [&num_freed] { ++num_freed; });
  };
  {
    Tensor outputs[kNumDevices];
    for (int device = 0; device < kNumDevices; ++device) {
      outputs[device] = wrapped(outputs_[device]);
      CollectiveArgs args = Args(device);
      args.input = wrapped(inputs_[device]);
      args.output = &outputs[device];
      job_.executor().ExecuteAsync(
          std::move(args),
          [held](absl::Status status) { EXPECT_THAT(status, IsOk()); });
    }
    job_.environment().RunAll();
    EXPECT_EQ(num_freed, kNumDevices);  // All inputs.
  }
  EXPECT_EQ(num_freed, 2 * kNumDevices);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_P(RepeatedCallsTest, BuffersAreFreeWhenAnEarlyErrorIsReported) {
  Call(0);
  CollectiveArgs limited = Args(1);
  limited.cancellation = std::make_shared<Cancellation>();
  Call(limited, 1);
  limited.cancellation->Cancel(absl::CancelledError("changed my mind"));
  job_.environment().RunAll();
  bool is_free = false;
  bool was_free = false;
  CollectiveArgs late = Args(2);
  late.input =
      *Tensor::Wrap(DType::kFloat32, inputs_[2].shape(),
                    inputs_[2].mutable_data(), [&is_free] { is_free = true; });
  job_.executor().ExecuteAsync(std::move(late), [&](absl::Status status) {
    EXPECT_FALSE(status.ok());
    was_free = is_free;
  });
  EXPECT_TRUE(was_free);
}

TEST_P(RepeatedCallsTest, AWrongBufferEndsTheCallOnAllMembers) {
  ClearEnds();
  Call(0);
  CollectiveArgs wrong = Args(1);
  wrong.input = *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(4));
  Call(wrong, 1);
  Call(2);
  ExpectAllEnded(IsInvalidArgument("rank 1", "the input is float32[4]"));
  CallAllAndExpect(IsOk());
}

TEST_P(RepeatedCallsTest, NoPlaceForTheOutputIsAnError) {
  ClearEnds();
  CollectiveArgs wrong = Args(0);
  wrong.output = nullptr;
  Call(wrong, 0);
  EXPECT_THAT(
      ends_[0],
      ElementsAre(IsInvalidArgument("there is no place for the output")));
}

TEST_P(RepeatedCallsTest, OthersMayCallWithAnEqualRequestOrWithSegments) {
  ClearEnds();
  Call(0);
  CollectiveArgs equal = Args(1);
  equal.request = Request();
  Call(equal, 1);
  CollectiveArgs segments = Args(2);
  segments.segments = *SegmentList::Create({{inputs_[2], outputs_[2]}});
  segments.input = Tensor();
  segments.output = nullptr;
  Call(segments, 2);
  ExpectAllEnded(IsOk());
  ExpectResults(6);
}

TEST_P(RepeatedCallsTest, WhatDependsOnThemWaitsForAllOfThem) {
  CollectiveRequest dependent = *Request(/*instance=*/2);
  dependent.impl_details.dependencies = {{1, 1}};
  const auto request = std::make_shared<const CollectiveRequest>(dependent);
  Tensor outputs[kNumDevices];
  int num_ended = 0;
  const auto call_dependent = [&] {
    for (int device = 0; device < kNumDevices; ++device) {
      CollectiveArgs args = Args(device);
      args.request = request;
      args.output = &outputs[device];
      job_.executor().ExecuteAsync(std::move(args), [&](absl::Status status) {
        EXPECT_THAT(status, IsOk());
        ++num_ended;
      });
    }
    job_.environment().RunAll();
  };
  call_dependent();  // Depends on the constructor's calls.
  EXPECT_EQ(num_ended, kNumDevices);
  call_dependent();
  for (int device = 0; device < kNumDevices; ++device) {
    EXPECT_EQ(num_ended, kNumDevices);
    Call(device);
  }
  EXPECT_EQ(num_ended, 2 * kNumDevices);
}

// When callbacks run, the engine no longer uses the step: the last callback may
// end it.
TEST_P(RepeatedCallsTest, ACallbackMayLetGoOfTheLastReferenceToTheExecutor) {
  std::shared_ptr<CollectiveExecutor> executor = job_.manager().FindOrCreate(2);
  const std::weak_ptr<CollectiveExecutor> weak = executor;
  for (int round = 0; round < 2; ++round) {
    int num_ended = 0;
    for (int device = 0; device < kNumDevices; ++device) {
      const auto kept = executor;  // Held during the call.
      kept->ExecuteAsync(Args(device), [&](absl::Status status) {
        EXPECT_THAT(status, IsOk());
        if (++num_ended < kNumDevices || round == 0) return;
        executor.reset();
        job_.manager().Cleanup(2);
      });
    }
    job_.environment().RunAll();
    EXPECT_EQ(num_ended, kNumDevices);
  }
  EXPECT_TRUE(weak.expired());
}

class RecordingObserver : public CollectiveObserver {
 public:
  void OnFinished(const Finished& finished) override {
    outputs.push_back(finished.output);
  }

  std::vector<Tensor> outputs;
};

TEST_P(RepeatedCallsTest, AreShownToTheObserver) {
  const auto observer = std::make_shared<RecordingObserver>();
  job_.manager().SetObserver(observer);
  const auto executor = job_.manager().FindOrCreate(3);
  for (int round = 0; round < 2; ++round) {
    observer->outputs.clear();
    for (int device = 0; device < kNumDevices; ++device) {
      executor->ExecuteAsync(Args(device), [](absl::Status status) {
        EXPECT_THAT(status, IsOk());
      });
    }
    job_.environment().RunAll();
    ASSERT_THAT(observer->outputs, SizeIs(kNumDevices));
    for (const Tensor& output : observer->outputs) {
      EXPECT_EQ(reinterpret_cast<const float*>(output.data())[0], 6);
    }
  }
}

// ---- Prepared collectives have the results and the ends of calls ----

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
  EXPECT_EQ(prepared_[0]->params().instance->impl_details.implementation,
            GetParam());
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

}  // namespace repeated_test
}  // namespace tutti
