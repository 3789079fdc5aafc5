// Tests GPUs of several processes, whose bytes go through pinned memory and
// gRPC. The processes are objects in this one, each with separate GPUs.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_gpu_sums.h"
#include "gtest/gtest.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace gpu_tasks_test {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr int kNumTasks = 2;
constexpr int kDevicesPerTask = 2;
constexpr int kNumRanks = kNumTasks * kDevicesPerTask;

class GpuTasksTest : public testing::Test {
 protected:
  void SetUp() override { Begin(); }

  void Begin(size_t max_entries = size_t{1} << 19) {
    for (int task = 0; task < kNumTasks; ++task) {
      gpus_.push_back(std::make_unique<FakeGpuRuntime>(
          FakeGpuRuntime::Options{.memory_bytes = int64_t{1} << 28,
                                  .environment = environment_.get()}));
    }
    auto tasks = JoinedGrpcTasks(
        kNumTasks, environment_.get(),
        [this](int task, uint64_t incarnation)
            -> absl::StatusOr<std::vector<std::unique_ptr<Device>>> {
          auto made = CreateCudaDevices({.runtime = gpus_[task].get(),
                                         .environment = environment_.get(),
                                         .job = "worker",
                                         .task = task,
                                         .incarnation = incarnation,
                                         .devices_per_gpu = kDevicesPerTask});
          if (!made.ok()) return made.status();
          std::vector<std::unique_ptr<Device>> devices;
          for (auto& device : *made) devices.push_back(std::move(device));
          return devices;
        },
        max_entries);
    ASSERT_THAT(tasks, IsOk());
    tasks_ = *std::move(tasks);
  }

  void TearDown() override {
    tasks_.clear();
    for (const auto& gpus : gpus_) EXPECT_THAT(gpus->Mistakes(), IsEmpty());
    gpus_.clear();
  }

  int TaskOf(int rank) const { return rank / kDevicesPerTask; }
  FakeGpuRuntime& gpus(int rank) { return *gpus_[TaskOf(rank)]; }
  ClusterRuntime& task(int rank) { return *tasks_[TaskOf(rank)]; }
  CudaDevice& device(int rank) {
    return static_cast<CudaDevice&>(
        *task(rank).devices()[rank % kDevicesPerTask]);
  }

  // Makes a tensor with `num_elements` times `value`.
  Tensor Filled(int rank, int64_t num_elements, float value) {
    Tensor tensor =
        device(rank)
            .Allocate(DType::kFloat32, TensorShape::Vector(num_elements))
            .value();
    sources_.push_back(std::make_unique<Bytes>(Floats(num_elements, value)));
    EXPECT_THAT(gpus(rank).CopyAsync(
                    tensor.mutable_data(), sources_.back()->data(),
                    tensor.size_bytes(), device(rank).compute_stream()),
                IsOk());
    return tensor;
  }

  Bytes Read(int rank, const Tensor& tensor) {
    return gpus(rank).Read(tensor.data(), tensor.size_bytes()).value();
  }

  // All-reduces 1, 2, 3 and 4; returns the statuses of all members.
  std::vector<absl::Status> Reduce(const std::string& implementation,
                                   int64_t num_elements, InstanceKey key,
                                   std::vector<Tensor>* tensors) {
    CollectiveRequest request;
    request.group_key = 1;
    request.instance_key = key;
    request.group_size = kNumRanks;
    request.device_type = CudaDevice::kType;
    request.op = AllReduce{};
    request.shape = TensorShape::Vector(num_elements);
    request.impl_details.implementation = implementation;
    const auto shared = std::make_shared<const CollectiveRequest>(request);
    std::vector<absl::Status> statuses(kNumRanks);
    BlockingCounter ended(kNumRanks);
    tensors->clear();
    for (int rank = 0; rank < kNumRanks; ++rank) {
      tensors->push_back(
          Filled(rank, num_elements, static_cast<float>(rank + 1)));
    }
    if (before_calls_ != nullptr) std::exchange(before_calls_, nullptr)();
    // The next collective needs a new step if this step failed.
    ++step_;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      task(rank).manager().FindOrCreate(step_)->ExecuteAsync(
          {.device = &device(rank),
           .request = shared,
           .input = (*tensors)[rank],
           .output = &(*tensors)[rank]},
          [&, rank](absl::Status status) {
            statuses[rank] = std::move(status);
            ended.DecrementCount();
          });
    }
    ended.Wait();
    return statuses;
  }

  const DefaultEnvironment environment_{/*num_workers=*/2};
  std::vector<std::unique_ptr<FakeGpuRuntime>> gpus_;
  std::vector<std::unique_ptr<ClusterRuntime>> tasks_;
  std::vector<std::unique_ptr<Bytes>> sources_;
  int64_t step_ = 0;
  std::function<void()> before_calls_;  // Runs in the next Reduce().
};

TEST_F(GpuTasksTest, SchedulesReduceAmongThem) {
  InstanceKey key = 0;
  std::vector<Tensor> tensors;
  // The largest are larger than a message between processes.
  for (const int64_t num_elements : {1, 5, 4099, 3'000'001}) {
    for (const std::string name :
         {"RingReduce", "TreeReduce", "RecursiveHalvingDoublingReduce",
          "HierarchicalRingReduce", "ShuffleThenRing",
          "HierarchicalDoubleTreeReduce", ""}) {
      SCOPED_TRACE(absl::StrCat(name, " of ", num_elements));
      const auto statuses = Reduce(name, num_elements, ++key, &tensors);
      ASSERT_THAT(statuses, Each(IsOk()));
      for (int rank = 0; rank < kNumRanks; ++rank) {
        ASSERT_EQ(Read(rank, tensors[rank]), Floats(num_elements, 10));
      }
    }
  }
}

// The call fails on any task: all end, and the next collective is right again.
TEST_F(GpuTasksTest, ACallOfTheRuntimeThatFailsEndsIt) {
  std::vector<Tensor> tensors;
  InstanceKey key = 0;
  for (const GpuCall call :
       {GpuCall::kAllocatePinned, GpuCall::kCopyAsync, GpuCall::kCreateEvent,
        GpuCall::kRecordEvent, GpuCall::kWaitForEvent, GpuCall::kLaunchReduce,
        GpuCall::kCallHost}) {
    int num_failed = 0;
    for (int num_good = 0; num_good < 4; ++num_good) {
      SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), " after ",
                                num_good, " good ones"));
      before_calls_ = [&, num_good] {
        gpus(3).FailCall(call, num_good, absl::InternalError("no luck"));
      };
      const auto statuses = Reduce("RingReduce", 1000, ++key, &tensors);
      const bool has_failed = !statuses[0].ok();
      num_failed += has_failed ? 1 : 0;
      for (const absl::Status& status : statuses) {
        if (!status.ok()) {
          EXPECT_THAT(status, IsInternal("no luck"));
        }
      }
      gpus(3).FailCall(call, 1 << 30, absl::OkStatus());
      ASSERT_THAT(Reduce("RingReduce", 1000, ++key, &tensors), Each(IsOk()));
      EXPECT_EQ(Read(0, tensors[0]), Floats(1000, 10));
    }
    if (call != GpuCall::kCallHost) {
      EXPECT_GT(num_failed, 0) << static_cast<int>(call);
    }
  }
}

TEST_F(GpuTasksTest, ASpoiltGpuEndsItOnAllTasks) {
  std::vector<Tensor> tensors;
  before_calls_ = [&] {
    gpus(3).FailStream(device(3).compute_stream(),
                       absl::InternalError("illegal address"));
  };
  EXPECT_THAT(Reduce("RingReduce", 1000, 1, &tensors),
              Each(IsInternal("illegal address")));
}

// Covers several tensors that are ready together.
TEST_F(GpuTasksTest, NamedTensorsOfGpusAreReduced) {
  constexpr int kNumTensors = 20;
  std::vector<Tensor> tensors(kNumTasks * kNumTensors);
  BlockingCounter ended(static_cast<int>(tensors.size()));
  for (int i = 0; i < kNumTensors; ++i) {
    for (int task = 0; task < kNumTasks; ++task) {
      // Tasks use opposite orders.
      const int which = task == 0 ? i : kNumTensors - 1 - i;
      Tensor& tensor = tensors[task * kNumTensors + which];
      const int rank = task * kDevicesPerTask;
      tensor = Filled(rank, 100 + which, static_cast<float>(task + which));
      tasks_[task]->coordinator().AllReduce(
          {.name = absl::StrCat("tensor ", which),
           .input = tensor,
           .output = &tensor},
          [&](const absl::Status& status) {
            EXPECT_THAT(status, IsOk());
            ended.DecrementCount();
          });
    }
  }
  ended.Wait();
  for (int which = 0; which < kNumTensors; ++which) {
    for (int task = 0; task < kNumTasks; ++task) {
      EXPECT_EQ(
          Read(task * kDevicesPerTask, tensors[task * kNumTensors + which]),
          Floats(100 + which, static_cast<float>(1 + 2 * which)));
    }
  }
}

// Numbers of rows change each time: no gather runs at its exact length.
TEST_F(GpuTasksTest, NamedTensorsOfGpusAreGatheredInEqualParts) {
  TearDown();
  Begin(/*max_entries=*/11);
  for (int64_t round = 0; round < 20; ++round) {
    std::vector<Tensor> outputs(kNumTasks);
    BlockingCounter ended(kNumTasks);
    Bytes wanted;
    for (int task = 0; task < kNumTasks; ++task) {
      const int64_t rows = task == 0 ? round : 10;
      const auto value = static_cast<float>(task + round);
      const Bytes part = Floats(rows, value);
      wanted.insert(wanted.end(), part.begin(), part.end());
      tasks_[task]->coordinator().AllGather(
          {.name = "rows",
           .input = Filled(task * kDevicesPerTask, rows, value),
           .output = &outputs[task]},
          [&](const absl::Status& status) {
            EXPECT_THAT(status, IsOk());
            ended.DecrementCount();
          });
    }
    ended.Wait();
    for (int task = 0; task < kNumTasks; ++task) {
      EXPECT_EQ(Read(task * kDevicesPerTask, outputs[task]), wanted);
    }
  }
}

}  // namespace gpu_tasks_test
}  // namespace tutti
