// Promises of the engine in every case: `done` runs once, with the first error,
// and not before the last step has released the buffers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/collective/params_test_data.h"
#include "framework/peer/local_peer_access.h"
#include "schedule/engine/schedule_run.h"
#include "tests/doubles/failing_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/parts_peer_access.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace engine_test {

using testing::Each;
using testing::UnorderedElementsAre;

// Number of elements for which each chunk of a ring goes to the work queue.
int64_t LargeSize(int num_devices) {
  return num_devices * static_cast<int64_t>(kInlineBytes / sizeof(float) + 1);
}

// Same as Each(), which takes seconds for large results.
bool HoldsOnly(const std::vector<float>& values, int wanted) {
  return std::all_of(values.begin(), values.end(), [wanted](float value) {
    return value == static_cast<float>(wanted);
  });
}

class FailureTest
    : public testing::TestWithParam<std::tuple<std::string, int, bool>> {
 protected:
  // Runs `num_before` successful all-reduces, then one whose n-th transfer
  // fails. Returns false if it has fewer transfers.
  bool RunWithFailureAt(int64_t n, int num_before) {
    const int64_t to_fail = n + num_before * num_transfers_;
    FailNthTransfer* transfers = nullptr;
    LocalJob job({.devices_per_task = num_devices(),
                  .seed = static_cast<uint64_t>(n),
                  .make_peer_access = [&](int64_t) {
                    auto peers = std::make_unique<FailNthTransfer>(
                        std::make_unique<LocalPeerAccess>(), to_fail);
                    transfers = peers.get();
                    return peers;
                  }});
    for (int i = 0; i < num_before; ++i) ExpectAllEndWell(job, "before");
    const auto calls = job.RunAll(Request(job));
    const bool failed = transfers->num_transfers() >= to_fail;
    if (!failed) num_transfers_ = transfers->num_transfers();
    int num_failed = 0;
    for (const LocalJob::Call* call : calls) {
      EXPECT_EQ(call->num_done, 1) << "hangs with a failure at " << n;
      if (call->pending()) continue;
      num_failed += !call->status->ok();
      if (call->status->ok()) {
        EXPECT_TRUE(HoldsOnly(call->result(), sum())) << "failure at " << n;
      } else {
        EXPECT_THAT(*call->status,
                    IsUnavailable(absl::StrCat("transfer ", to_fail, " ")));
      }
    }
    EXPECT_EQ(num_failed > 0, failed) << n;
    if (!failed) return false;
    // The failure leaves no trace: the next execution succeeds.
    ExpectAllEndWell(job, absl::StrCat("after a failure at ", n));
    return true;
  }

 private:
  int num_devices() const { return std::get<int>(GetParam()); }
  int sum() const { return num_devices() * (num_devices() + 1) / 2; }

  CollectiveRequest Request(const LocalJob& job) const {
    const auto& [implementation, num_devices, is_large] = GetParam();
    return job.AllReduceRequest(is_large ? LargeSize(num_devices) : num_devices,
                                implementation);
  }

  void ExpectAllEndWell(LocalJob& job, const std::string& when) {
    for (const LocalJob::Call* call : job.RunAll(Request(job))) {
      ExpectEnds({call}, IsOk());
      EXPECT_TRUE(HoldsOnly(call->result(), sum())) << when;
    }
  }

  int64_t num_transfers_ = 0;  // Per all-reduce; set by a successful one.
};

TEST_P(FailureTest, WhatIsUsedAgainFailsAndRunsAgainAsWhatIsNew) {
  EXPECT_FALSE(RunWithFailureAt(/*n=*/int64_t{1} << 40, /*num_before=*/0));
  int64_t n = 1;
  while (RunWithFailureAt(n, /*num_before=*/2)) ++n;
  EXPECT_GT(n, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Engine, FailureTest,
    testing::Combine(testing::Values("RingReduce", "TreeReduce",
                                     "RecursiveDoublingReduce"),
                     testing::Values(2, 3), testing::Bool()));

TEST(EngineTest, DoneWaitsForTheStepThatStillReadsABuffer) {
  LocalJob job({.devices_per_task = 2});
  const CollectiveRequest request =
      job.AllReduceRequest(LargeSize(2), "RingReduce");
  std::vector<LocalJob::Call*> calls = {&job.Start(0, request),
                                        &job.Start(1, request)};
  // Reductions on buffers of both members are now in the queue.
  job.executor().StartAbort(absl::AbortedError("stop"));
  EXPECT_TRUE(calls[0]->pending() && calls[1]->pending());
  job.environment().RunAll();
  ExpectEnds(calls, IsAborted("stop"));
}

TEST(EngineTest, SmallScheduleRunsOnTheCallersThread) {
  LocalJob job({.devices_per_task = 4});
  const CollectiveRequest request = job.AllReduceRequest(100, "RingReduce");
  std::vector<LocalJob::Call*> calls;
  for (int i = 0; i < 4; ++i) calls.push_back(&job.Start(i, request));
  // The queue ran no work.
  for (const LocalJob::Call* call : calls) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(call->result(), Each(10.0f));
  }
}

// Records for each receive whether it names a destination for the bytes.
class NotingPeers final : public PartsPeerAccess {
 public:
  explicit NotingPeers(std::vector<bool>* notes)
      : PartsPeerAccess(std::make_unique<LocalPeerAccess>()), notes_(notes) {}

  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    notes_->push_back(!recv.into.empty());
    EXPECT_TRUE(recv.into.empty() || recv.into.size() == recv.num_bytes);
    PartsPeerAccess::RecvFromPeer(peer, key, recv);
  }

 private:
  std::vector<bool>* const notes_;
};

TEST(EngineTest, WhatIsNotReducedMayBePutWhereItGoes) {
  std::vector<bool> notes;
  LocalJob job({.devices_per_task = 2, .make_peer_access = [&](int64_t) {
                  return std::make_unique<NotingPeers>(&notes);
                }});
  const auto calls = job.RunAll(job.AllReduceRequest(100, "RingReduce"));
  for (const LocalJob::Call* call : calls) {
    EXPECT_THAT(*call->status, IsOk());
    EXPECT_THAT(call->result(), Each(3.0f));
  }
  // Each member receives a part to reduce, and a sum.
  EXPECT_THAT(notes, UnorderedElementsAre(false, true, false, true));
}

TEST(EngineTest, CallFromDoneDoesNotDeepenTheStackWhereThereIsNothingToDo) {
  LocalJob job({});
  CollectiveRequest barrier = job.AllReduceRequest(0);
  barrier.op = Barrier{};
  const auto request = std::make_shared<const CollectiveRequest>(barrier);
  int num_left = 100'000;
  std::function<void()> next = [&] {
    if (num_left-- == 0) return;
    job.executor().ExecuteAsync(
        {.device = job.devices()[0], .request = request},
        [&](absl::Status status) {
          ASSERT_THAT(status, IsOk());
          next();
        });
  };
  next();
  EXPECT_EQ(num_left, -1);
}

class ChainTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, ChainTest,
                         testing::Values("LocalReduce", "RingReduce"),
                         [](const auto& info) { return info.param; });

TEST_P(ChainTest, CallFromDoneDoesNotDeepenTheStack) {
  LocalJob job({.devices_per_task = 2});
  const CollectiveRequest request = job.AllReduceRequest(1, GetParam());
  const auto shared = std::make_shared<const CollectiveRequest>(request);
  constexpr int kCalls = 100'000;
  struct Chain {
    LocalJob& job;
    std::shared_ptr<const CollectiveRequest> request;
    Tensor input;
    int num_done[2] = {0, 0};
    Tensor outputs[2];
    void Next(int device) {
      if (num_done[device] == kCalls) return;
      job.executor().ExecuteAsync({.device = job.devices()[device],
                                   .request = request,
                                   .input = input,
                                   .output = &outputs[device]},
                                  [this, device](absl::Status status) {
                                    ASSERT_THAT(status, IsOk());
                                    ++num_done[device];
                                    Next(device);
                                  });
    }
  };
  Chain chain{job, shared, *Tensor::Allocate(DType::kFloat32, request.shape)};
  chain.Next(0);
  chain.Next(1);
  job.environment().RunAll();
  EXPECT_EQ(chain.num_done[0], kCalls);
  EXPECT_EQ(chain.num_done[1], kCalls);
}

class InPlaceTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Engine, InPlaceTest,
                         testing::Values("RingReduce", "ShuffleReduce",
                                         "RecursiveDoublingReduce"),
                         [](const auto& info) { return info.param; });

TEST_P(InPlaceTest, MembersMayChangeFromExecutionToExecution) {
  constexpr int kNumDevices = 3;
  LocalJob job({.devices_per_task = kNumDevices});
  for (int time = 0; time < 4 << kNumDevices; ++time) {
    std::vector<LocalJob::Call*> calls;
    for (int device = 0; device < kNumDevices; ++device) {
      const bool in_place = (time >> device) % 2 != 0;
      calls.push_back(&job.Start(device, job.AllReduceRequest(100, GetParam()),
                                 [in_place](CollectiveArgs& args) {
                                   if (in_place) *args.output = args.input;
                                 }));
    }
    job.environment().RunAll();
    for (const LocalJob::Call* call : calls) {
      ExpectEnds({call}, IsOk());
      EXPECT_THAT(call->result(), Each(6.0f));
    }
  }
}

// State of one of two members in an all-reduce of its own instance.
struct OwnMember {
  OwnMember(LocalJob& job, Execution& execution, int rank)
      : device({.name = {"localhost", 0, 0, "CPU", rank}}),
        params(ParamsOf({.shape = ShapeOf({4})}, /*group_size=*/2, rank)),
        implementation(
            (*CollectiveRegistry::Global().Find("RecursiveDoublingReduce"))
                ->Create()) {
    context.params = params.get();
    context.executor = &job.executor();
    context.device = &device;
    context.input = *Tensor::Allocate(DType::kFloat32, ShapeOf({4}));
    context.output = *Tensor::Allocate(DType::kFloat32, ShapeOf({4}));
    context.execution = &execution;
  }

  CpuDevice device;
  const std::shared_ptr<const CollectiveParams> params;
  const std::unique_ptr<CollectiveImplementationInterface> implementation;
  CollectiveContext context;
};

TEST(EngineTest, AllThatARunNeedsMayGoInDone) {
  LocalJob job({});
  Execution execution({1, 1}, 0);
  std::unique_ptr<OwnMember> members[2];
  for (int rank = 0; rank < 2; ++rank) {
    members[rank] = std::make_unique<OwnMember>(job, execution, rank);
  }
  int num_done = 0;
  const auto run_all = [&](bool is_last) {
    for (auto& member : members) {
      CollectiveContext& context = member->context;
      EXPECT_THAT(member->implementation->InitializeCollectiveContext(&context),
                  IsOk());
      member->implementation->Run(context, [&](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
        ++num_done;
        if (is_last) member.reset();
      });
    }
  };
  for (const bool is_last : {false, false, true}) run_all(is_last);
  EXPECT_EQ(num_done, 6);
}

TEST(EngineTest, ExplicitExecutionsMeetByNumberNotByOrder) {
  LocalJob job({.devices_per_task = 2});
  const CollectiveRequest request = job.AllReduceRequest(5, "RingReduce");
  const auto number = [](uint64_t execution) {
    return [execution](CollectiveArgs& args) { args.execution = execution; };
  };
  auto& first = job.Start(0, request, number(7));
  auto& second = job.Start(0, request, number(8));
  auto& third = job.Start(1, request, number(8));
  job.environment().RunAll();
  EXPECT_TRUE(first.pending());
  EXPECT_FALSE(second.pending());
  EXPECT_FALSE(third.pending());
  job.Start(1, request, number(7));
  EXPECT_EQ(first.num_done, 1);
}

// Members on separate threads, with the default environment's workers and
// timer. Results are right, and every call ends exactly once, whatever runs
// concurrently.

constexpr int kNumDevices = 4;

std::shared_ptr<const CollectiveRequest> Request(
    int64_t instance_key, int64_t num_elements,
    const std::string& implementation) {
  CollectiveRequest request;
  request.group_key = 1;
  request.group_size = kNumDevices;
  request.instance_key = instance_key;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(num_elements);
  request.impl_details.implementation = implementation;
  return std::make_shared<const CollectiveRequest>(request);
}

// Result of a member's call.
struct Call {
  std::atomic<int> num_done{0};
  absl::Status status;  // From the first call of `done`.
  Tensor output;
};

// Step, limit and cancellation of a call.
struct Fate {
  int64_t step_id = 1;
  absl::Duration timeout = absl::InfiniteDuration();
  std::shared_ptr<Cancellation> token;
  bool is_cancelled = false;  // Cancelled at once.
};

class ConcurrencyTest : public testing::TestWithParam<std::string> {
 protected:
  // Runs `member` on one thread per device.
  void OnAllDevices(const std::function<void(int device)>& member) {
    std::vector<std::thread> threads;
    for (int device = 0; device < kNumDevices; ++device) {
      threads.emplace_back(member, device);
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Arguments of the device, whose input is all device + 1.
  CollectiveArgs Args(int device,
                      const std::shared_ptr<const CollectiveRequest>& request,
                      Tensor* output) const {
    Tensor input = *Tensor::Allocate(DType::kFloat32, request->shape);
    std::fill_n(reinterpret_cast<float*>(input.mutable_data()),
                input.num_elements(), static_cast<float>(device + 1));
    return {.device = group_->devices()[device],
            .request = request,
            .input = std::move(input),
            .output = output};
  }

  // Makes calls for the device and waits for their ends. `next` chooses the
  // fate of each call.
  void CallMany(int device, int num_calls,
                const std::shared_ptr<const CollectiveRequest>& request,
                absl::FunctionRef<Fate(int i)> next) {
    CollectiveArgs args = Args(device, request, /*output=*/nullptr);
    BlockingCounter done(num_calls);
    for (int i = 0; i < num_calls; ++i) {
      const Fate fate = next(i);
      Call& call = calls_[device].emplace_back();
      args.output = &call.output;
      args.deadline = environment_->get().clock->Now() + fate.timeout;
      args.cancellation = fate.token;
      group_->manager()
          .FindOrCreate(fate.step_id)
          ->ExecuteAsync(args, [&call, &done](absl::Status status) {
            if (++call.num_done > 1) return;
            call.status = std::move(status);
            done.DecrementCount();
          });
      if (fate.is_cancelled) {
        fate.token->Cancel(absl::CancelledError("now"));
      }
    }
    done.Wait();
  }

  // Ends the group and all threads. Then expects that each call ended once,
  // with OK and the right result or with one of `errors`. Returns the number of
  // OKs.
  int ExpectEachCallEndedOnce(const std::vector<absl::StatusCode>& errors) {
    group_.reset();
    environment_.reset();
    int num_ok = 0;
    for (const std::deque<Call>& calls : calls_) {
      for (const Call& call : calls) {
        EXPECT_EQ(call.num_done, 1);
        if (!call.status.ok()) {
          EXPECT_THAT(errors, testing::Contains(call.status.code()))
              << call.status;
          continue;
        }
        ++num_ok;
        EXPECT_EQ(CountOf(kSum, call.output), call.output.num_elements());
      }
    }
    return num_ok;
  }

  // Number of elements equal to `wanted`.
  static int64_t CountOf(float wanted, const Tensor& tensor) {
    const auto* const values = reinterpret_cast<const float*>(tensor.data());
    return std::count(values, values + tensor.num_elements(), wanted);
  }

  static constexpr float kSum = 1 + 2 + 3 + 4;  // Sum of CallMany()'s inputs.

  // Destroyed after everything that might end a call.
  std::array<std::deque<Call>, kNumDevices> calls_;
  std::optional<DefaultEnvironment> environment_{2};
  std::unique_ptr<LocalGroup> group_ =
      *LocalGroup::Create(environment_->get(), 2, kNumDevices / 2);
};

INSTANTIATE_TEST_SUITE_P(Implementations, ConcurrencyTest,
                         testing::Values("LocalReduce", "RingReduce",
                                         "RecursiveDoublingReduce"),
                         [](const auto& info) { return info.param; });

TEST_P(ConcurrencyTest, EveryMemberOnItsThreadGetsTheSum) {
  const std::vector<std::shared_ptr<const CollectiveRequest>> requests = {
      Request(1, 1, GetParam()), Request(2, 1001, GetParam()),
      Request(3, 600'000, GetParam())};
  OnAllDevices([&](int device) {
    for (int i = 0; i < 100; ++i) {
      const auto& request = requests[i % 50 == 0 ? 2 : i % 2];
      std::vector<float> values(request->shape.num_elements(),
                                static_cast<float>(device + i));
      Tensor output =
          *Tensor::Wrap(DType::kFloat32, request->shape, values.data());
      absl::Status status;
      BlockingCounter done(1);
      group_->manager().FindOrCreate(1)->ExecuteAsync(
          {.device = group_->devices()[device],
           .request = request,
           .input = output,
           .output = &output},
          [&](absl::Status given) {
            status = std::move(given);
            done.DecrementCount();
          });
      done.Wait();
      // Continues after a failure: the other members wait for this one.
      EXPECT_THAT(status, IsOk());
      EXPECT_EQ(CountOf(static_cast<float>(6 + 4 * i), output),
                output.num_elements());
    }
  });
}

TEST_P(ConcurrencyTest, CallsEndOnceUnderCancellationsAndDeadlines) {
  const auto request = Request(1, 1001, GetParam());
  OnAllDevices([&](int device) {
    std::mt19937 generator(static_cast<unsigned>(device));
    CallMany(device, /*num_calls=*/300, request, [&](int /*i*/) {
      Fate fate;
      const unsigned choice = generator() % 8;
      if (choice < 2) fate.token = std::make_shared<Cancellation>();
      fate.is_cancelled = choice == 0;
      if (choice == 2) fate.timeout = absl::Microseconds(generator() % 200);
      return fate;
    });
  });
  EXPECT_GT(ExpectEachCallEndedOnce({absl::StatusCode::kCancelled,
                                     absl::StatusCode::kDeadlineExceeded}),
            0);
}

// Covers an end that reaches a start while its thread is still starting it.
TEST_P(ConcurrencyTest, PreparedStartsEndOnceUnderCancellationsAndDeadlines) {
  const auto request = Request(1, 1001, GetParam());
  std::atomic<int> num_ok{0};
  OnAllDevices([&](int device) {
    std::shared_ptr<PreparedCollective> prepared;
    Tensor output;
    {
      BlockingCounter done(1);
      group_->manager().FindOrCreate(1)->Prepare(Args(device, request, &output),
                                                 [&](auto given) {
                                                   prepared = *std::move(given);
                                                   done.DecrementCount();
                                                 });
      done.Wait();
    }
    std::mt19937 generator(static_cast<unsigned>(device));
    for (int i = 0; i < 500; ++i) {
      PreparedCollective::Limits limits;
      const unsigned choice = generator() % 40;
      if (choice < 2) limits.cancellation = std::make_shared<Cancellation>();
      if (choice == 2) {
        limits.deadline = environment_->get().clock->Now() +
                          absl::Microseconds(generator() % 200);
      }
      BlockingCounter done(1);
      const auto on_done = [&](const absl::Status& status) {
        if (status.ok()) {
          ++num_ok;
          EXPECT_EQ(CountOf(kSum, output), output.num_elements());
        } else {
          EXPECT_THAT(status.code(),
                      testing::AnyOf(absl::StatusCode::kCancelled,
                                     absl::StatusCode::kDeadlineExceeded));
        }
        done.DecrementCount();
      };
      if (choice < 3) {
        prepared->Start(limits, on_done);
      } else {
        prepared->Start(on_done);
      }
      if (choice == 0) limits.cancellation->Cancel(absl::CancelledError("now"));
      done.Wait();
    }
  });
  EXPECT_GT(num_ok, 0);
}

TEST_P(ConcurrencyTest, ChainsOfPreparedStartsMeetOnAnyThread) {
  constexpr int kTimes = 2000;
  const auto request = Request(1, 10, GetParam());
  BlockingCounter ended(kNumDevices);
  struct Chain {
    std::shared_ptr<PreparedCollective> prepared;
    Tensor output;
    int num_left = kTimes;
    BlockingCounter* ended = nullptr;

    void Start() {
      prepared->Start([this](absl::Status status) {
        EXPECT_THAT(status, IsOk());
        EXPECT_EQ(CountOf(kSum, output), output.num_elements());
        std::fill_n(reinterpret_cast<float*>(output.mutable_data()),
                    output.num_elements(), 0.0f);
        if (--num_left > 0) return Start();
        prepared.reset();  // Last reference.
        ended->DecrementCount();
      });
    }
  };
  std::array<Chain, kNumDevices> chains;
  OnAllDevices([&](int device) {
    Chain& chain = chains[device];
    chain.ended = &ended;
    group_->manager().FindOrCreate(1)->Prepare(
        Args(device, request, &chain.output), [&](auto given) {
          chain.prepared = *std::move(given);
          chain.Start();
        });
  });
  ended.Wait();
}

TEST_P(ConcurrencyTest, CallsEndOnceWhenStepsAreCleanedUpMeanwhile) {
  const auto request = Request(1, 70'000, GetParam());
  OnAllDevices([&](int device) {
    CallMany(device, /*num_calls=*/200, request, [&](int i) {
      // Members may reach a step that another member has cleaned up.
      const int64_t step = i / 20 * 3 + i % 3;
      if (i % 20 == 8 + 3 * device) group_->manager().Cleanup(step);
      return Fate{.step_id = step, .timeout = absl::Milliseconds(500)};
    });
  });
  ExpectEachCallEndedOnce({absl::StatusCode::kCancelled,
                           absl::StatusCode::kFailedPrecondition,
                           absl::StatusCode::kDeadlineExceeded});
}

}  // namespace engine_test
}  // namespace tutti
