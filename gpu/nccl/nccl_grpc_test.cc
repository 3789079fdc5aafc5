// Tests NCCL's double among the GPUs of several processes, whose messages go
// over gRPC. The processes are objects in this one, each with separate GPUs.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_then.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gtest/gtest.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/named_tensors.h"
#include "tutti/selection.h"
#include "tutti/tensor.h"

namespace tutti {
namespace nccl_grpc_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kNumTasks = 2;
constexpr int kGpusPerTask = 2;
constexpr int kNumRanks = kNumTasks * kGpusPerTask;
constexpr int64_t kElements = 5;
constexpr int kNumNames = 50;
constexpr GroupKey kGroup = 1;

class NcclGrpcTest : public testing::Test {
 protected:
  void SetUp() override { Begin(); }

  void Begin(CoordinatorSettings coordinator = {}) {
    tasks_.clear();
    gpus_.clear();
    for (int task = 0; task < kNumTasks; ++task) {
      gpus_.push_back(std::make_unique<FakeGpuRuntime>(
          FakeGpuRuntime::Options{.num_gpus = kGpusPerTask,
                                  .host = shares_gpus_ ? 0 : task,
                                  .environment = environment_.get()}));
    }
    auto tasks = JoinedGrpcTasks(
        kNumTasks, environment_.get(),
        [this](int task, uint64_t incarnation) {
          return MakeDevices(task, incarnation);
        },
        /*max_entries=*/size_t{1} << 19, std::move(coordinator),
        std::make_shared<const SelectionRules>(
            SelectionRules{.rules = {{.implementation = "NcclReduce"}}}));
    ASSERT_THAT(tasks, IsOk());
    tasks_ = *std::move(tasks);
  }

  absl::StatusOr<std::vector<std::unique_ptr<Device>>> MakeDevices(
      int task, uint64_t incarnation) {
    std::shared_ptr<NcclRuntime> nccl;
    if (task < tasks_with_nccl_) {
      nccl = std::make_shared<FakeNcclRuntime>(network_, gpus_[task].get());
    }
    auto made = CreateCudaDevices({.runtime = gpus_[task].get(),
                                   .environment = environment_.get(),
                                   .job = "worker",
                                   .task = task,
                                   .incarnation = incarnation,
                                   .nccl = std::move(nccl)});
    if (!made.ok()) return made.status();
    std::vector<std::unique_ptr<Device>> devices;
    for (auto& device : *made) devices.push_back(std::move(device));
    return devices;
  }

  void TearDown() override {
    tasks_.clear();
    for (const auto& gpus : gpus_) EXPECT_THAT(gpus->Mistakes(), IsEmpty());
    EXPECT_THAT(network_->Mistakes(), IsEmpty());
  }

  FakeGpuRuntime& gpus(int rank) { return *gpus_[rank / kGpusPerTask]; }
  ClusterRuntime& task(int rank) { return *tasks_[rank / kGpusPerTask]; }
  CudaDevice& device(int rank) {
    return static_cast<CudaDevice&>(*task(rank).devices()[rank % kGpusPerTask]);
  }

  // Calls on a rank. All its elements are 1, 2, 3 or 4, by rank.
  void Call(int rank, InstanceKey key, int64_t step, BlockingCounter* ended,
            std::shared_ptr<Cancellation> cancellation = nullptr) {
    CollectiveRequest request;
    request.group_key = kGroup;
    request.instance_key = key;
    request.group_size = kNumRanks;
    request.device_type = CudaDevice::kType;
    request.op = AllReduce{};
    request.dtype = DType::kUint8;
    request.shape = TensorShape::Vector(kElements);
    request.impl_details.implementation = implementation_;
    tensors_[rank] =
        device(rank).Allocate(request.dtype, request.shape).value();
    const auto value = static_cast<uint8_t>(rank + 1);
    sources_[rank].assign(kElements, value);
    EXPECT_THAT(gpus(rank).CopyAsync(tensors_[rank].mutable_data(),
                                     sources_[rank].data(), kElements,
                                     device(rank).compute_stream()),
                IsOk());
    task(rank).manager().FindOrCreate(step)->ExecuteAsync(
        {.device = &device(rank),
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = tensors_[rank],
         .output = &tensors_[rank],
         .cancellation = std::move(cancellation)},
        [this, rank, ended](absl::Status status) {
          statuses_[rank] = std::move(status);
          ended->DecrementCount();
        });
  }

  // Calls on all ranks, and waits for the end.
  const std::vector<absl::Status>& Reduce(InstanceKey key, int64_t step) {
    BlockingCounter ended(kNumRanks);
    for (int rank = 0; rank < kNumRanks; ++rank) Call(rank, key, step, &ended);
    ended.Wait();
    return statuses_;
  }

  // Waits until `num_launches` groups of calls have been launched in this test.
  void AwaitLaunches(int num_launches) {
    while (network_->counts().launches < num_launches)
      std::this_thread::yield();
  }

  void ExpectSums() {
    for (int rank = 0; rank < kNumRanks; ++rank) {
      EXPECT_THAT(*gpus(rank).Read(tensors_[rank].data(), kElements),
                  Each(1 + 2 + 3 + 4));
    }
  }

  // Requests of both tasks for sums of many sizes.
  struct NamedTensors {
    std::vector<Tensor> tensors{kNumTasks * kNumNames};
    std::vector<absl::Status> statuses{kNumTasks * kNumNames};
    std::unique_ptr<BlockingCounter> ended =
        std::make_unique<BlockingCounter>(kNumTasks * kNumNames);
  };
  NamedTensors RequestByName() {
    NamedTensors named;
    for (int i = 0; i < kNumNames; ++i) {
      for (int task = 0; task < kNumTasks; ++task) {
        const int which = task == 0 ? i : (7 * i + 3) % kNumNames;
        RequestByName(task, which, named);
      }
    }
    return named;
  }
  void RequestByName(int task, int which, NamedTensors& named) {
    const int rank = task * kGpusPerTask;
    const int index = task * kNumNames + which;
    Tensor& tensor = named.tensors[index];
    tensor = device(rank)
                 .Allocate(DType::kFloat32, TensorShape::Vector(which + 1))
                 .value();
    EXPECT_THAT(gpus(rank).CopyAsync(tensor.mutable_data(), ones_.data(),
                                     tensor.size_bytes(),
                                     device(rank).compute_stream()),
                IsOk());
    tasks_[task]->coordinator().AllReduce(
        {.name = absl::StrCat("tensor ", which),
         .input = tensor,
         .output = &tensor},
        [status = &named.statuses[index],
         ended = named.ended.get()](absl::Status given) {
          *status = std::move(given);
          ended->DecrementCount();
        });
  }

  // Runs in the next generation of the group, and in another step.
  void ExpectNextGenerationRuns(int64_t step) {
    for (const auto& task : tasks_) {
      task->ReformGroup(kGroup, absl::AbortedError("formed again"));
    }
    ASSERT_THAT(Reduce(/*key=*/1, step), Each(IsOk()));
    ExpectSums();
  }

  bool shares_gpus_ = false;  // All tasks are on one host.
  int tasks_with_nccl_ = kNumTasks;
  const DefaultEnvironment environment_{/*num_workers=*/2};
  const std::shared_ptr<FakeNcclNetwork> network_ =
      std::make_shared<FakeNcclNetwork>();
  // Memory that GPUs may still read when a test ends.
  std::vector<std::vector<uint8_t>> sources_{kNumRanks};
  const std::vector<float> ones_ = std::vector<float>(kNumNames, 1.0f);

  std::vector<std::unique_ptr<FakeGpuRuntime>> gpus_;
  std::vector<std::unique_ptr<ClusterRuntime>> tasks_;
  std::vector<absl::Status> statuses_{kNumRanks};
  std::string implementation_ = "NcclReduce";
  std::vector<Tensor> tensors_{kNumRanks};
};

TEST_F(NcclGrpcTest, ProcessesReduceWithOneCommunicator) {
  for (InstanceKey key = 1; key <= 3; ++key) {
    for (int64_t step = 1; step <= 3; ++step) {
      ASSERT_THAT(Reduce(key, step), Each(IsOk()));
      ExpectSums();
    }
  }
  EXPECT_EQ(network_->counts().ids, 1);
  EXPECT_EQ(network_->counts().inits, kNumRanks);
}

TEST_F(NcclGrpcTest, WhatHangsEndsOnAllProcesses) {
  ASSERT_THAT(Reduce(/*key=*/1, /*step=*/1), Each(IsOk()));
  for (int cancelled = 0; cancelled < kNumRanks; ++cancelled) {
    const int64_t step = 2 + cancelled;
    SCOPED_TRACE(cancelled);
    network_->HangLaunches(true);
    const auto cancellation = std::make_shared<Cancellation>();
    BlockingCounter ended(kNumRanks);
    for (int rank = 0; rank < kNumRanks; ++rank) {
      Call(rank, /*key=*/1, step, &ended,
           rank == cancelled ? cancellation : nullptr);
    }
    AwaitLaunches(kNumTasks * (2 + 2 * cancelled));
    cancellation->Cancel(absl::CancelledError("enough"));
    ended.Wait();
    EXPECT_THAT(statuses_, Each(IsCancelled("enough")));
    network_->HangLaunches(false);
    ASSERT_NO_FATAL_FAILURE(ExpectNextGenerationRuns(step + 100));
  }
}

TEST_F(NcclGrpcTest, AnotherOrderIsFoundAndNamed) {
  ASSERT_THAT(Reduce(/*key=*/1, /*step=*/1), Each(IsOk()));
  ASSERT_THAT(Reduce(/*key=*/2, /*step=*/1), Each(IsOk()));
  BlockingCounter ended(kNumRanks);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    Call(rank, rank < kGpusPerTask ? 1 : 2, /*step=*/1, &ended);
  }
  ended.Wait();
  EXPECT_THAT(
      statuses_,
      Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr("launch 3, instance 1, execution 1"),
                          HasSubstr("launch 3, instance 2, execution 1")))));
  ExpectNextGenerationRuns(/*step=*/2);
}

// Same as NcclThenRing, in three chunks.
REGISTER_COLLECTIVE(ThenRing, NcclThenFactory("RingReduce", /*chunk_bytes=*/2));

TEST_F(NcclGrpcTest, HybridsReduce) {
  InstanceKey key = 0;
  for (const std::string name :
       {"NcclThenRing", "NcclThenShuffle", "NcclThenRecursiveHalvingDoubling",
        "ThenRing"}) {
    SCOPED_TRACE(name);
    implementation_ = name;
    ++key;
    for (int run = 0; run < 3; ++run) {
      ASSERT_THAT(Reduce(key, /*step=*/1), Each(IsOk()));
      ExpectSums();
    }
  }
}

TEST_F(NcclGrpcTest, AHybridEndsWhereAnotherProcessGivesItUp) {
  implementation_ = "ThenRing";
  ASSERT_THAT(Reduce(/*key=*/1, /*step=*/1), Each(IsOk()));
  BlockingCounter ended(kGpusPerTask);
  for (int rank = 0; rank < kGpusPerTask; ++rank) {
    Call(rank, /*key=*/1, /*step=*/2, &ended);
  }
  AwaitLaunches(2 * 2 * 3 + 1);  // Two per chunk; then a reduced chunk.
  task(kGpusPerTask)
      .manager()
      .FindOrCreate(2)
      ->StartAbort(absl::AbortedError("no time for it"));
  ended.Wait();
  for (int rank = 0; rank < kGpusPerTask; ++rank) {
    EXPECT_THAT(statuses_[rank], IsAborted("no time for it"));
  }
}

TEST_F(NcclGrpcTest, ByARuleTheGroupUsesNccl) {
  implementation_ = "";
  ASSERT_THAT(Reduce(/*key=*/1, /*step=*/1), Each(IsOk()));
  ExpectSums();
  EXPECT_EQ(network_->counts().launches, kNumTasks);
}

// Tasks request in different orders. NCCL would report launches in different
// orders.
TEST_F(NcclGrpcTest, NamedTensorsAreLaunchedInOneOrder) {
  for (const int64_t fusion_bytes : {int64_t{0}, int64_t{64} << 20}) {
    SCOPED_TRACE(fusion_bytes);
    ASSERT_NO_FATAL_FAILURE(Begin({.fusion_bytes = fusion_bytes}));
    for (int round = 0; round < 2; ++round) {
      NamedTensors named = RequestByName();
      named.ended->Wait();
      EXPECT_THAT(named.statuses, Each(IsOk()));
    }
    EXPECT_GE(network_->counts().launches, 2 * kNumTasks);
  }
}

TEST_F(NcclGrpcTest, NamedTensorsEndWithTheirRuntimes) {
  Begin({.fusion_bytes = 0});
  NamedTensors named = RequestByName();
  AwaitLaunches(kNumTasks * 3);
  tasks_.clear();
  named.ended->Wait();
  for (const absl::Status& status : named.statuses) {
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status) ||
                absl::IsUnavailable(status))
        << status;
  }
}

// Only the leader has NCCL.
class NcclInOneTaskTest : public NcclGrpcTest {
 protected:
  NcclInOneTaskTest() { tasks_with_nccl_ = 1; }
};

TEST_F(NcclInOneTaskTest, OthersServeAndTheNameIsRefused) {
  implementation_ = "";
  ASSERT_THAT(Reduce(/*key=*/1, /*step=*/1), Each(IsOk()));
  ExpectSums();
  implementation_ = "NcclReduce";
  EXPECT_THAT(Reduce(/*key=*/2, /*step=*/1),
              Each(IsInvalidArgument(
                  "NcclReduce needs NCCL, which rank 2 "
                  "(/job:worker/replica:0/task:1/device:GPU:0) and 1 more "
                  "do not have; these can serve: ")));
  EXPECT_EQ(network_->counts().ids, 0);
}

class NcclOnSharedGpusTest : public NcclGrpcTest {
 protected:
  NcclOnSharedGpusTest() { shares_gpus_ = true; }
};

TEST_F(NcclOnSharedGpusTest, OthersServeAndTheNameIsRefused) {
  implementation_ = "";
  ASSERT_THAT(Reduce(/*key=*/1, /*step=*/1), Each(IsOk()));
  ExpectSums();
  implementation_ = "NcclReduce";
  EXPECT_THAT(
      Reduce(/*key=*/2, /*step=*/1),
      Each(IsInvalidArgument("NcclReduce needs each member on a GPU of its "
                             "own, but ranks 0 and 2 ")));
  EXPECT_EQ(network_->counts().ids, 0);
}

}  // namespace nccl_grpc_test
}  // namespace tutti
