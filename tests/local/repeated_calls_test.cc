// Repeated calls of one request, whose instance is settled, end as first calls
// do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tests/local/repeated_testing.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace repeated_calls_test {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

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
    for (int device = 0; device < kNumDevices; ++device) {
      EXPECT_THAT(Result(device), AllOf(SizeIs(kNumElements), Each(6 * i)));
    }
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
    Run((device + 1) % kNumDevices);
    RunAndCancel(device);
    Run((device + 2) % kNumDevices);
    ExpectAllEnded(IsCancelled("changed my mind"));
    RunAllAndExpect(IsOk());
    EXPECT_THAT(Result(1), Each(6));
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
  for (int device = 0; device < kNumDevices; ++device) {
    EXPECT_THAT(Result(device), Each(6));
  }
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
  for (int device = 0; device < kNumDevices; ++device) {
    EXPECT_THAT(Result(device), Each(6));
  }
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
  for (int device = 0; device < kNumDevices; ++device) {
    EXPECT_THAT(Result(device), Each(6));
  }
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

}  // namespace repeated_calls_test
}  // namespace tutti
