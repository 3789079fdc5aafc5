// Ends of a call that waits for dependencies, limits of the wait, and what an
// observer sees. The conformance suite (dependency_suite.cc) tests that every
// implementation waits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/executor.h"

namespace tutti {
namespace dependencies_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class DependenciesTest : public testing::TestWithParam<std::string> {
 protected:
  DependenciesTest() : job_({.devices_per_task = 2}) {
    first_ = job_.AllReduceRequest(4);
    first_.impl_details.implementation = GetParam();
    second_ = first_;
    second_.instance_key = 2;
    second_.impl_details.dependencies = {{1, 1}};
  }

  // Settles both instances, so that later calls wait only for each other.
  void RunBothOnce() {
    job_.RunAll(first_);
    ExpectEnds(job_.RunAll(second_), IsOk());
  }

  LocalJob job_;
  CollectiveRequest first_;
  CollectiveRequest second_;
};

TEST_P(DependenciesTest, DeadlineWakesWhoWaits) {
  RunBothOnce();
  const auto waiting = job_.RunAll(second_, [&](CollectiveArgs& args) {
    args.deadline = job_.environment().get().clock->Now() + absl::Seconds(1);
  });
  job_.environment().Advance(absl::Seconds(1));
  ExpectEnds(waiting, IsDeadlineExceeded("dependencies: group 1, "
                                         "instance 1 had not been "
                                         "launched"));
}

TEST_P(DependenciesTest, FailedDependencyHoldsNobodyBack) {
  RunBothOnce();
  const auto waiting = job_.RunAll(second_);
  const auto token = std::make_shared<Cancellation>();
  token->Cancel(absl::CancelledError("not this time"));
  ExpectEnds(
      job_.RunAll(first_, [&](auto& args) { args.cancellation = token; }),
      IsCancelled("not this time"));
  ExpectEnds(waiting, IsOk());
}

TEST_P(DependenciesTest, FailureBeforeAllHaveComeHoldsNobodyBack) {
  RunBothOnce();
  const auto token = std::make_shared<Cancellation>();
  job_.Start(0, first_, [&](auto& args) { args.cancellation = token; });
  const auto waiting = job_.RunAll(second_);
  token->Cancel(absl::CancelledError("not this time"));
  job_.environment().RunAll();
  ExpectEnds(waiting, IsOk());
}

TEST_P(DependenciesTest, LongChainNeedsNoStack) {
  constexpr int kLength = 20'000;
  std::vector<LocalJob::Call*> calls;
  CollectiveRequest request = first_;
  for (int i = kLength; i > 0; --i) {
    request.instance_key = i;
    request.impl_details.dependencies = {{1, i - 1}};
    for (int device : {0, 1}) calls.push_back(&job_.Start(device, request));
  }
  request.instance_key = 0;
  request.impl_details.dependencies.clear();
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    ASSERT_EQ(call->num_done, 1);
  }
  ExpectEnds(calls, IsOk());
}

INSTANTIATE_TEST_SUITE_P(Implementations, DependenciesTest,
                         testing::Values("LocalReduce", "RingReduce",
                                         "TreeReduce"));

constexpr int kNumDevices = 3;

// Copies of the observed ends.
class Recorder : public CollectiveObserver {
 public:
  struct Seen {
    int device = 0;
    int64_t instance = 0;
    int64_t step = 0;
    uint64_t execution = 0;
    std::vector<float> output;

    friend bool operator==(const Seen&, const Seen&) = default;
  };

  void OnFinished(const Finished& finished) override {
    Seen seen{finished.device.attributes().name.index,
              finished.request.instance_key, finished.step_id,
              finished.execution};
    if (finished.output.is_set()) {
      const auto* values =
          reinterpret_cast<const float*>(finished.output.data());
      seen.output.assign(values, values + finished.output.num_elements());
    }
    all.push_back(std::move(seen));
  }

  std::vector<Seen> all;
};

// Parameter: the algorithm; "" means the library's choice.
class CollectiveObserverTest : public testing::TestWithParam<std::string> {
 protected:
  CollectiveObserverTest() { job_.manager().SetObserver(recorder_); }

  CollectiveRequest Request() const {
    CollectiveRequest request = job_.AllReduceRequest(2, GetParam());
    request.instance_key = 7;
    return request;
  }

  LocalJob job_{{.devices_per_task = kNumDevices}};
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
};

TEST_P(CollectiveObserverTest, SeesWhatEachMemberGetsOfEachExecution) {
  job_.RunAll(Request());
  const std::vector<float> sum = {6, 6};
  using Seen = Recorder::Seen;
  EXPECT_THAT(recorder_->all,
              UnorderedElementsAre(Seen{0, 7, 1, 0, sum}, Seen{1, 7, 1, 0, sum},
                                   Seen{2, 7, 1, 0, sum}));
  recorder_->all.clear();
  job_.RunAll(Request());
  EXPECT_THAT(recorder_->all,
              UnorderedElementsAre(Seen{0, 7, 1, 1, sum}, Seen{1, 7, 1, 1, sum},
                                   Seen{2, 7, 1, 1, sum}));
}

TEST_P(CollectiveObserverTest, SeesAPartBeforeItsDone) {
  std::vector<size_t> seen_before_done;
  std::vector<Tensor> outputs(kNumDevices);
  for (int device = 0; device < kNumDevices; ++device) {
    Tensor input = *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(2));
    job_.executor().ExecuteAsync(
        {.device = job_.devices()[device],
         .request = std::make_shared<const CollectiveRequest>(Request()),
         .input = input,
         .output = &outputs[device]},
        [&, device](const absl::Status& status) {
          EXPECT_THAT(status, IsOk());
          size_t num_own = 0;
          for (const auto& seen : recorder_->all) {
            num_own += seen.device == device ? 1 : 0;
          }
          seen_before_done.push_back(num_own);
        });
  }
  job_.environment().RunAll();
  EXPECT_THAT(seen_before_done, ElementsAre(1, 1, 1));
}

TEST_P(CollectiveObserverTest, SeesAnOutputThatAllShare) {
  std::vector<float> values = {2, 3};
  const Tensor input =
      *Tensor::Wrap(DType::kFloat32, TensorShape::Vector(2), values.data());
  std::vector<Tensor> outputs(kNumDevices);
  for (int device = 0; device < kNumDevices; ++device) {
    job_.executor().ExecuteAsync(
        {.device = job_.devices()[device],
         .request = std::make_shared<const CollectiveRequest>(Request()),
         .input = input,
         .output = &outputs[device],
         .allow_shared_output = true},
        [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  }
  job_.environment().RunAll();
  ASSERT_THAT(recorder_->all, SizeIs(kNumDevices));
  for (const auto& seen : recorder_->all) {
    EXPECT_THAT(seen.output, ElementsAre(6, 9));
  }
}

TEST_P(CollectiveObserverTest, SeesStartsOfWhatIsPreparedAndNotThePreparation) {
  std::vector<Tensor> inputs(kNumDevices);
  std::vector<Tensor> outputs(kNumDevices);
  std::vector<std::shared_ptr<PreparedCollective>> prepared;
  for (int device = 0; device < kNumDevices; ++device) {
    inputs[device] = *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(2));
    job_.executor().Prepare(
        {.device = job_.devices()[device],
         .request = std::make_shared<const CollectiveRequest>(Request()),
         .input = inputs[device],
         .output = &outputs[device]},
        [&](auto result) { prepared.push_back(*std::move(result)); });
  }
  job_.environment().RunAll();
  ASSERT_THAT(prepared, SizeIs(kNumDevices));
  EXPECT_THAT(recorder_->all, IsEmpty());
  for (const auto& each : prepared) each->Start(nullptr);
  job_.environment().RunAll();
  EXPECT_THAT(recorder_->all, SizeIs(kNumDevices));

  // A start with a limit counts as a call.
  for (const auto& each : prepared) {
    each->Start({.cancellation = std::make_shared<Cancellation>()}, nullptr);
  }
  job_.environment().RunAll();
  EXPECT_THAT(recorder_->all, SizeIs(2 * kNumDevices));
}

TEST_P(CollectiveObserverTest, SeesNothingOfWhatFails) {
  job_.Start(0, Request());
  job_.Start(1, Request());
  job_.executor().StartAbort(absl::AbortedError("stop"));
  ExpectEnds(job_.RunAll(Request()), IsAborted("stop"));
  EXPECT_THAT(recorder_->all, IsEmpty());
}

TEST_P(CollectiveObserverTest, IsThatOfTheTimeWhenTheStepWasFirstAskedFor) {
  job_.manager().FindOrCreate(1);
  job_.manager().SetObserver(nullptr);
  job_.RunAll(Request());
  EXPECT_THAT(recorder_->all, SizeIs(kNumDevices));

  job_.BeginNextStep();
  recorder_->all.clear();
  job_.RunAll(Request());
  EXPECT_THAT(recorder_->all, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CollectiveObserverTest,
                         testing::Values("", "RingReduce", "TreeReduce"),
                         [](const auto& info) {
                           return info.param.empty() ? "Chosen" : info.param;
                         });

TEST(CollectiveObserverOfOthersTest, SeesAPartWithoutOutput) {
  LocalJob job({.devices_per_task = 2});
  const auto recorder = std::make_shared<Recorder>();
  job.manager().SetObserver(recorder);
  CollectiveRequest request = job.AllReduceRequest(2);
  request.op = Barrier();
  job.RunAll(request, [](CollectiveArgs& args) {
    args.input = Tensor();
    args.output = nullptr;
  });
  ASSERT_THAT(recorder->all, SizeIs(2));
  EXPECT_THAT(recorder->all[0].output, IsEmpty());
}

}  // namespace dependencies_test
}  // namespace tutti
