// Members on separate threads, with the default environment's workers and
// timer. Results are right, and every call ends exactly once, whatever runs
// concurrently.

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
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace concurrency_test {

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

  // Makes calls for the device and waits for their ends. Inputs are all device
  // + 1. `next` chooses the fate of each call.
  void CallMany(int device, int num_calls,
                const std::shared_ptr<const CollectiveRequest>& request,
                absl::FunctionRef<Fate(int i)> next) {
    Tensor input = *Tensor::Allocate(DType::kFloat32, request->shape);
    std::fill_n(reinterpret_cast<float*>(input.mutable_data()),
                input.num_elements(), static_cast<float>(device + 1));
    BlockingCounter done(num_calls);
    for (int i = 0; i < num_calls; ++i) {
      const Fate fate = next(i);
      Call& call = calls_[device].emplace_back();
      group_->manager()
          .FindOrCreate(fate.step_id)
          ->ExecuteAsync({.device = group_->devices()[device],
                          .request = request,
                          .input = input,
                          .output = &call.output,
                          .deadline = absl::Now() + fate.timeout,
                          .cancellation = fate.token},
                         [&call, &done](absl::Status status) {
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
    Tensor input = *Tensor::Allocate(DType::kFloat32, request->shape);
    std::fill_n(reinterpret_cast<float*>(input.mutable_data()),
                input.num_elements(), static_cast<float>(device + 1));
    std::shared_ptr<PreparedCollective> prepared;
    Tensor output;
    {
      BlockingCounter done(1);
      group_->manager().FindOrCreate(1)->Prepare(
          {.device = group_->devices()[device],
           .request = request,
           .input = input,
           .output = &output},
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
        limits.deadline = absl::Now() + absl::Microseconds(generator() % 200);
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
    Tensor input, output;
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
    chain.input = *Tensor::Allocate(DType::kFloat32, request->shape);
    std::fill_n(reinterpret_cast<float*>(chain.input.mutable_data()),
                chain.input.num_elements(), static_cast<float>(device + 1));
    group_->manager().FindOrCreate(1)->Prepare(
        {.device = group_->devices()[device],
         .request = request,
         .input = chain.input,
         .output = &chain.output},
        [&](auto given) {
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

}  // namespace concurrency_test
}  // namespace tutti
