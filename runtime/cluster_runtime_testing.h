#ifndef TUTTI_RUNTIME_CLUSTER_RUNTIME_TESTING_H_
#define TUTTI_RUNTIME_CLUSTER_RUNTIME_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "remote/transport.h"
#include "tests/cluster/loopback_network.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {

inline ClusterSpec ThreeTasks(int this_task) {
  return {.addresses = {"a:1", "b:1", "c:1"}, .this_task = this_task};
}

// Fixture with all tasks of a cluster. The seed decides the order of messages.
class ClusterRuntimeTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr int kNumTasks = 3;
  static constexpr int kDevices = 2;
  static constexpr int64_t kStep = 5;

  // Result of an asynchronous operation.
  struct Outcome {
    std::optional<absl::Status> status;  // Unset until the operation ends.

    StatusCallback Set() {
      return [this](absl::Status ended) {
        EXPECT_FALSE(status.has_value());
        status = std::move(ended);
      };
    }
  };

  // A call of a device. All elements of the output have the same value.
  struct Call {
    Outcome outcome;
    Tensor output;
    std::shared_ptr<Cancellation> cancellation;  // May be null.

    float result() const {
      return reinterpret_cast<const float*>(output.data())[0];
    }
    friend absl::Status EndOf(const Call& call) {
      return call.outcome.status.value_or(absl::UnknownError("not ended"));
    }
  };

  void SetUp() override {
    for (int task = 0; task < kNumTasks; ++task) Start(task);
    Join();
  }
  void TearDown() override {
    for (auto& runtime : runtimes_) runtime.reset();
    environment_.RunAll();
  }

  void Start(int task) {
    auto runtime = ClusterRuntime::Create(
        {.cluster = ThreeTasks(task),
         .environment = environment_.get(),
         .devices_per_task = kDevices,
         .make_transport = [this, task](uint64_t incarnation)
             -> absl::StatusOr<std::shared_ptr<Transport>> {
           return network_.Connect(task, incarnation);
         }});
    ASSERT_THAT(runtime, IsOk());
    runtimes_[task] = *std::move(runtime);
  }

  void Join() {
    std::vector<Outcome> joined(kNumTasks);
    for (int task = 0; task < kNumTasks; ++task) {
      runtimes_[task]->Join(After(absl::Seconds(60)), nullptr,
                            joined[task].Set());
    }
    environment_.RunAll();
    for (const Outcome& outcome : joined) {
      ASSERT_EQ(outcome.status, absl::OkStatus());
    }
  }

  absl::Time After(absl::Duration duration) {
    return environment_.get().clock->Now() + duration;
  }

  static CollectiveRequest Request(int num_tasks) {
    CollectiveRequest request;
    request.group_key = 1;
    request.group_size = num_tasks * kDevices;
    request.instance_key = 1;
    request.op = AllReduce{};
    request.shape = TensorShape::Vector(1001);
    return request;
  }

  // Calls with an input whose elements are all the device's rank + 1.
  Call& CallDevice(int task, int device, const CollectiveRequest& request,
                   absl::Time deadline = absl::InfiniteFuture()) {
    Call& call = calls_.emplace_back();
    CallDevice(task, device, request, call, deadline);
    return call;
  }
  void CallDevice(int task, int device, const CollectiveRequest& request,
                  Call& call, absl::Time deadline = absl::InfiniteFuture()) {
    Tensor input = *Tensor::Allocate(request.dtype, request.shape);
    std::fill_n(reinterpret_cast<float*>(input.mutable_data()),
                input.num_elements(),
                static_cast<float>(task * kDevices + device + 1));
    runtimes_[task]->manager().FindOrCreate(step_)->ExecuteAsync(
        {.device = runtimes_[task]->devices()[device],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = std::move(input),
         .output = &call.output,
         .deadline = deadline,
         .cancellation = call.cancellation},
        call.outcome.Set());
  }

  std::vector<Call*> CallAll(const std::vector<int>& tasks,
                             InstanceKey instance = 1) {
    CollectiveRequest request = Request(static_cast<int>(tasks.size()));
    request.instance_key = instance;
    std::vector<Call*> calls;
    for (int task : tasks) {
      for (int device = 0; device < kDevices; ++device) {
        calls.push_back(&CallDevice(task, device, request));
      }
    }
    return calls;
  }

  void RunOnAll() { ExpectSums(CallAll({0, 1, 2}), 1 + 2 + 3 + 4 + 5 + 6); }

  // Cuts task 2 off, and lets the other tasks notice.
  void LoseTask2() {
    environment_.RunAll();
    network_.Cut(2);
    environment_.RunAll();
    environment_.Advance(absl::Seconds(6));
  }

  // Ends the present step on all tasks.
  void CleanUp(int task) {
    Outcome cleaned;
    runtimes_[task]->CleanupStep(step_, cleaned.Set());
    environment_.RunAll();
    EXPECT_EQ(cleaned.status, absl::OkStatus());
  }

  // A call of the task's in a step that was cleaned up.
  void CallLate(const std::shared_ptr<CollectiveExecutor>& executor, int task,
                const CollectiveRequest& request) {
    Call late;
    executor->ExecuteAsync(
        {.device = runtimes_[task]->devices()[0],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = *Tensor::Allocate(request.dtype, request.shape),
         .output = &late.output},
        late.outcome.Set());
    environment_.RunAll();
    ExpectEnds({&late}, IsCancelled("step 5 has been cleaned up"));
  }

  // Runs all work, then expects that each call has ended with this sum.
  void ExpectSums(const std::vector<Call*>& calls, float sum) {
    environment_.RunAll();
    for (const Call* call : calls) {
      ASSERT_EQ(call->outcome.status, absl::OkStatus());
      EXPECT_EQ(call->result(), sum);
    }
  }

  SimulatedEnvironment environment_{GetParam()};
  LoopbackNetwork network_{ThreeTasks(0), environment_.get().queue,
                           /*part_elements=*/100};
  int64_t step_ = kStep;
  std::deque<Call> calls_;
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_{kNumTasks};
};

}  // namespace tutti

#endif  // TUTTI_RUNTIME_CLUSTER_RUNTIME_TESTING_H_
