// Tests collectives among GPUs over doubles: schedules whose steps run on the
// streams of GPUs, and GPUs of several processes.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/executor/executor_core.h"
#include "framework/reduce/reduction_reference_testing.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_then.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gpu/testing/gpu_cases.h"
#include "gtest/gtest.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/conformance/case.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/tested_implementation.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/named_tensors.h"
#include "tutti/selection.h"
#include "tutti/tensor.h"

namespace tutti {
namespace gpu_tasks_test {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Optional;

using conformance::Case;
using conformance::Expectation;
using conformance::ImplementationUnderTest;

// Runs the case as instance `key` while inputs are still being written, and
// compares the bits of all outputs.
void RunCase(FakeGpuGroup& group, const ImplementationUnderTest& under_test,
             const Case& c, int64_t key) {
  SCOPED_TRACE(absl::StrCat(under_test.name, " ", ToString(c)));
  const auto inputs = conformance::MakeInputs(under_test, c, /*seed=*/key);
  const auto expected = Expectation::Create(under_test, c, inputs);
  ASSERT_THAT(expected, IsOk());
  const auto requests = RequestsOf(c, under_test.name, key);
  std::vector<CaseBuffers> buffers(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    CollectiveRequest request = *requests[rank];
    request.device_type = CudaDevice::kType;
    LaunchOpsOn(group.runtime(), group.device(rank).gpu(), request);
    buffers[rank] = MakeCaseBuffers(group.device(rank), c, rank);
    auto& [input, output] = buffers[rank];
    if (input.size_bytes() > 0) {
      group.Write(rank, input, Joined({(*inputs)[rank]}));
    }
    group.Call(rank, request, input,
               HasOutput(c.type, rank, c.root) ? &output : nullptr);
  }
  group.RunAll();
  for (int rank = 0; rank < group.size(); ++rank) {
    ASSERT_THAT(group.ended(rank), Optional(IsOk())) << rank;
    if (!HasOutput(c.type, rank, c.root)) continue;
    ASSERT_EQ(group.Read(buffers[rank].output),
              Joined((*expected)->output(rank)))
        << rank;
  }
}

class SchedulesTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, SchedulesTest, testing::ValuesIn(ScheduleNames()),
                         [](const auto& info) { return info.param; });

TEST_P(SchedulesTest, HaveTheBitsOfTheHost) {
  const ImplementationUnderTest under_test = ScheduleNamed(GetParam());
  int64_t key = 0;
  for (const int size : {1, 2, 3, 8}) {
    FakeGpuGroup group({.seed = static_cast<uint64_t>(size),
                        .devices_per_gpu = size,
                        .memory_bytes = int64_t{1} << 26});
    const conformance::Grid grid = {.devices = size};
    for (const CollectiveType type : under_test.traits().collectives) {
      std::vector<Case> cases = LengthCases(under_test, type, grid);
      for (const auto& more :
           {SpecialCases(under_test, type, grid),
            size == 8 ? std::vector<Case>()
                      : ReductionCases(under_test, type, grid)}) {
        cases.insert(cases.end(), more.begin(), more.end());
      }
      for (const Case& c : cases) {
        if (!RunsAlike(c)) continue;
        RunCase(group, under_test, c, ++key);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST(GpuScheduleTest, AveragesOf16BitFloatsAreRoundedOnce) {
  constexpr int64_t kElements = 1000;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    FakeGpuGroup group({});
    CollectiveRequest request = group.Request(AllReduce{}, dtype, kElements);
    request.final_op = FinalOp::DivideByGroupSize();
    request.impl_details.implementation = "RingReduce";
    std::vector<Bytes> inputs;
    std::vector<Tensor> outputs(2);
    for (int rank = 0; rank < 2; ++rank) {
      inputs.push_back(RandomElements(dtype, kElements, /*seed=*/rank));
      const Tensor input = group.Allocate(rank, dtype, kElements);
      group.Write(rank, input, inputs.back());
      group.Call(rank, request, input, &outputs[rank]);
    }
    group.RunAll();
    Bytes expected = inputs[0];
    // The second chunk is reduced in the opposite order, with the same bits.
    ReferenceReduceMany(ReductionKind::kSum, dtype,
                        {inputs[0].data(), inputs[1].data()}, expected.data(),
                        kElements, /*divisor=*/2);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(group.Read(outputs[rank]), expected);
    }
  }
}

// The host would use two rings.
TEST(GpuScheduleTest, OneRingHoweverLarge) {
  constexpr int64_t kElements = (9 << 20) / 4;
  FakeGpuGroup group({.memory_bytes = int64_t{1} << 27});
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kFloat32, kElements);
  request.impl_details.implementation = "RingReduce";
  std::vector<Tensor> outputs(2);
  for (int rank = 0; rank < 2; ++rank) {
    group.Call(rank, request, group.Allocate(rank, DType::kFloat32, kElements),
               &outputs[rank]);
  }
  group.RunAll();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(group.ended(rank), Optional(IsOk()));
  }
  EXPECT_EQ(group.runtime().NumCalls(GpuCall::kLaunchReduce), 2);
}

// Some order of streams reveals a step that does not wait for another device.
TEST_P(SchedulesTest, HaveThemWhateverTheOrderOfStreams) {
  const ImplementationUnderTest under_test = ScheduleNamed(GetParam());
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    // Seeds alternate: two GPUs with a link, or without.
    FakeGpuGroup group({.seed = seed,
                        .num_gpus = 2,
                        .devices_per_gpu = 2,
                        .memory_bytes = int64_t{1} << 26,
                        .link = [seed](int, int) {
                          return seed % 2 == 0 ? PeerLink::kNone
                                               : PeerLink::kNvLink;
                        }});
    int64_t key = 0;
    for (const CollectiveType type : under_test.traits().collectives) {
      for (Case c : SampleCases(under_test, type, {.devices = 4})) {
        if (seed % 4 < 2) c.in_place = InPlace::kAll;
        RunCase(group, under_test, c, ++key);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

// Tests GPUs of several processes, whose bytes go through pinned memory and
// gRPC, or among which NCCL's double reduces. The processes are objects in this
// one, each with separate GPUs.

constexpr int kNumTasks = 2;
constexpr int kDevicesPerTask = 2;
constexpr int kNumRanks = kNumTasks * kDevicesPerTask;
constexpr int64_t kElements = 5;
constexpr int kNumNames = 50;
constexpr GroupKey kGroup = 1;

class GpuTasksTest : public testing::Test {
 protected:
  // Other uses of the GPUs and of NCCL: set in constructors.
  int gpus_per_task_ = 1;
  int tasks_with_nccl_ = 0;
  bool shares_gpus_ = false;  // All tasks are on one host.
  std::shared_ptr<const SelectionRules> rules_;
  std::string implementation_;

  void SetUp() override { Begin(); }

  void Begin(CoordinatorSettings coordinator = {},
             size_t max_entries = size_t{1} << 19) {
    tensors_.assign(kNumRanks, Tensor());
    tasks_.clear();
    gpus_.clear();
    for (int task = 0; task < kNumTasks; ++task) {
      gpus_.push_back(std::make_unique<FakeGpuRuntime>(
          FakeGpuRuntime::Options{.num_gpus = gpus_per_task_,
                                  .host = shares_gpus_ ? 0 : task,
                                  .memory_bytes = int64_t{1} << 28,
                                  .environment = environment_.get()}));
    }
    auto tasks = JoinedGrpcTasks(
        kNumTasks, environment_.get(),
        [this](int task, uint64_t incarnation) {
          return MakeDevices(task, incarnation);
        },
        max_entries, std::move(coordinator), rules_);
    ASSERT_THAT(tasks, IsOk());
    tasks_ = *std::move(tasks);
  }

  absl::StatusOr<std::vector<std::unique_ptr<Device>>> MakeDevices(
      int task, uint64_t incarnation) {
    std::shared_ptr<NcclRuntime> nccl;
    if (task < tasks_with_nccl_) {
      nccl = std::make_shared<FakeNcclRuntime>(network_, gpus_[task].get());
    }
    auto made =
        CreateCudaDevices({.runtime = gpus_[task].get(),
                           .environment = environment_.get(),
                           .job = "worker",
                           .task = task,
                           .incarnation = incarnation,
                           .devices_per_gpu = kDevicesPerTask / gpus_per_task_,
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

  FakeGpuRuntime& gpus(int rank) { return *gpus_[rank / kDevicesPerTask]; }
  ClusterRuntime& task(int rank) { return *tasks_[rank / kDevicesPerTask]; }
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

  // Calls on a rank. All its elements are 1, 2, 3 or 4, by rank.
  void Call(int rank, InstanceKey key, int64_t step, BlockingCounter* ended,
            std::shared_ptr<Cancellation> cancellation = nullptr) {
    tensors_[rank] = Filled(rank, kElements, static_cast<float>(rank + 1));
    CallFilled(rank, key, step, ended, std::move(cancellation));
  }
  void CallFilled(int rank, InstanceKey key, int64_t step,
                  BlockingCounter* ended,
                  std::shared_ptr<Cancellation> cancellation = nullptr) {
    CollectiveRequest request;
    request.group_key = kGroup;
    request.instance_key = key;
    request.group_size = kNumRanks;
    request.device_type = CudaDevice::kType;
    request.op = AllReduce{};
    request.shape = tensors_[rank].shape();
    request.impl_details.implementation = implementation_;
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
  const std::vector<absl::Status>& Reduce(InstanceKey key, int64_t step,
                                          int64_t num_elements = kElements) {
    BlockingCounter ended(kNumRanks);
    for (int rank = 0; rank < kNumRanks; ++rank) {
      tensors_[rank] = Filled(rank, num_elements, static_cast<float>(rank + 1));
    }
    if (before_calls_ != nullptr) std::exchange(before_calls_, nullptr)();
    for (int rank = 0; rank < kNumRanks; ++rank) {
      CallFilled(rank, key, step, &ended);
    }
    ended.Wait();
    return statuses_;
  }

  void ExpectSums() {
    for (int rank = 0; rank < kNumRanks; ++rank) {
      ASSERT_EQ(Read(rank, tensors_[rank]),
                Floats(tensors_[rank].num_elements(), 1 + 2 + 3 + 4));
    }
  }

  // Requests of both tasks, in different orders, for sums of many sizes.
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
    const int index = task * kNumNames + which;
    Tensor& tensor = named.tensors[index];
    tensor = Filled(task * kDevicesPerTask, which + 1,
                    static_cast<float>(task + which));
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
  void ExpectNamedSums() {
    NamedTensors named = RequestByName();
    named.ended->Wait();
    EXPECT_THAT(named.statuses, Each(IsOk()));
    for (int index = 0; index < kNumTasks * kNumNames; ++index) {
      const int which = index % kNumNames;
      EXPECT_EQ(Read(index / kNumNames * kDevicesPerTask, named.tensors[index]),
                Floats(which + 1, static_cast<float>(1 + 2 * which)));
    }
  }

  const DefaultEnvironment environment_{/*num_workers=*/2};
  const std::shared_ptr<FakeNcclNetwork> network_ =
      std::make_shared<FakeNcclNetwork>();
  // Memory that GPUs may still read when a test ends.
  std::vector<std::unique_ptr<Bytes>> sources_;
  std::vector<std::unique_ptr<FakeGpuRuntime>> gpus_;
  std::vector<std::unique_ptr<ClusterRuntime>> tasks_;
  std::vector<Tensor> tensors_{kNumRanks};
  std::vector<absl::Status> statuses_{kNumRanks};
  std::function<void()> before_calls_;  // Runs in the next Reduce().
};

TEST_F(GpuTasksTest, SchedulesReduceAmongThem) {
  InstanceKey key = 0;
  // The largest are larger than a message between processes.
  for (const int64_t num_elements : {1, 5, 4099, 3'000'001}) {
    for (const std::string name :
         {"RingReduce", "TreeReduce", "RecursiveHalvingDoublingReduce",
          "HierarchicalRingReduce", "ShuffleThenRing",
          "HierarchicalDoubleTreeReduce", ""}) {
      SCOPED_TRACE(absl::StrCat(name, " of ", num_elements));
      implementation_ = name;
      ++key;
      ASSERT_THAT(Reduce(key, /*step=*/key, num_elements), Each(IsOk()));
      ASSERT_NO_FATAL_FAILURE(ExpectSums());
    }
  }
}

// The call fails on any task: all end, and the next collective is right again.
TEST_F(GpuTasksTest, ACallOfTheRuntimeThatFailsEndsIt) {
  implementation_ = "RingReduce";
  InstanceKey key = 0;  // The next collective needs a new step, too.
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
      ++key;
      const auto statuses = Reduce(key, /*step=*/key, 1000);
      num_failed += statuses[0].ok() ? 0 : 1;
      EXPECT_THAT(statuses, Each(AnyOf(IsOk(), IsInternal("no luck"))));
      gpus(3).FailCall(call, 1 << 30, absl::OkStatus());
      ++key;
      ASSERT_THAT(Reduce(key, /*step=*/key, 1000), Each(IsOk()));
      ASSERT_NO_FATAL_FAILURE(ExpectSums());
    }
    if (call != GpuCall::kCallHost) {
      EXPECT_GT(num_failed, 0) << static_cast<int>(call);
    }
  }
}

TEST_F(GpuTasksTest, ASpoiltGpuEndsItOnAllTasks) {
  implementation_ = "RingReduce";
  before_calls_ = [&] {
    gpus(3).FailStream(device(3).compute_stream(),
                       absl::InternalError("illegal address"));
  };
  EXPECT_THAT(Reduce(/*key=*/1, /*step=*/1, 1000),
              Each(IsInternal("illegal address")));
}

// Covers several tensors that are ready together.
TEST_F(GpuTasksTest, NamedTensorsOfGpusAreReduced) { ExpectNamedSums(); }

// Task 1 has joined, and fills memory of its GPU with the neutral element.
TEST_F(GpuTasksTest, AJoinedTaskChangesNothingOfNamedTensorsOfGpus) {
  BlockingCounter joined(kNumTasks);
  const auto join = [&](int task) {
    tasks_[task]->coordinator().Join([&](const absl::StatusOr<int>& last) {
      EXPECT_THAT(last, IsOk());
      joined.DecrementCount();
    });
  };
  join(1);
  for (const int64_t num_elements : {0, 1, 7, 10'007}) {
    for (const ReductionKind kind :
         {ReductionKind::kSum, ReductionKind::kMin, ReductionKind::kMax}) {
      const Tensor tensor = Filled(/*rank=*/0, num_elements, -5);
      Tensor output;
      BlockingCounter ended(1);
      tasks_[0]->coordinator().AllReduce(
          {.name = "x", .input = tensor, .output = &output, .merge_op = kind},
          [&](const absl::Status& status) {
            EXPECT_THAT(status, IsOk());
            ended.DecrementCount();
          });
      ended.Wait();
      EXPECT_EQ(Read(0, output), Floats(num_elements, -5));
    }
  }
  join(0);
  joined.Wait();
}

// Numbers of rows change each time: no gather runs at its exact length.
TEST_F(GpuTasksTest, NamedTensorsOfGpusAreGatheredInEqualParts) {
  Begin(/*coordinator=*/{}, /*max_entries=*/11);
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

class NcclGrpcTest : public GpuTasksTest {
 protected:
  NcclGrpcTest() {
    gpus_per_task_ = kDevicesPerTask;
    tasks_with_nccl_ = kNumTasks;
    rules_ = std::make_shared<const SelectionRules>(
        SelectionRules{.rules = {{.implementation = "NcclReduce"}}});
    implementation_ = "NcclReduce";
  }

  // Waits until `num_launches` groups of calls have been launched in this test.
  void AwaitLaunches(int num_launches) {
    while (network_->counts().launches < num_launches)
      std::this_thread::yield();
  }

  // Runs in the next generation of the group, and in another step.
  void ExpectNextGenerationRuns(int64_t step) {
    for (const auto& task : tasks_) {
      task->ReformGroup(kGroup, absl::AbortedError("formed again"));
    }
    ASSERT_THAT(Reduce(/*key=*/1, step), Each(IsOk()));
    ExpectSums();
  }
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

// Same as NcclThenRing, in three chunks.
REGISTER_COLLECTIVE(ThenRing, NcclThenFactory("RingReduce", /*chunk_bytes=*/8));

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
  BlockingCounter ended(kDevicesPerTask);
  for (int rank = 0; rank < kDevicesPerTask; ++rank) {
    Call(rank, /*key=*/1, /*step=*/2, &ended);
  }
  AwaitLaunches(2 * 2 * 3 + 1);  // Two per chunk; then a reduced chunk.
  task(kDevicesPerTask)
      .manager()
      .FindOrCreate(2)
      ->StartAbort(absl::AbortedError("no time for it"));
  ended.Wait();
  for (int rank = 0; rank < kDevicesPerTask; ++rank) {
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
    for (int round = 0; round < 2; ++round) ExpectNamedSums();
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

// Messages both ways between two GPUs, of one task or of two.
TEST(GpuMessagesTest, GoBetweenDevicesOfOneTaskAndOfTwo) {
  for (const int num_tasks : {1, 2}) {
    SCOPED_TRACE(num_tasks);
    FakeNcclTasks tasks({.num_tasks = num_tasks,
                         .gpus_per_task = 2 / num_tasks,
                         .tasks_with_nccl = 0});
    std::shared_ptr<const CollGroupParams> groups[2];
    for (const int rank : {0, 1}) {
      tasks.executor(rank)->core().options().param_resolver->CompleteGroupAsync(
          tasks.device(rank).attributes(),
          tasks.Request(Barrier{}, DType::kFloat32, 1), nullptr,
          [&groups, rank](auto group) { groups[rank] = *std::move(group); });
    }
    for (const int64_t num_elements : {0, 1, 7, 1001, 100'000}) {
      int num_ended = 0;
      Tensor sent[2], places[2];
      for (const int rank : {0, 1}) {
        for (Tensor* tensor : {&sent[rank], &places[rank]}) {
          *tensor = tasks.Allocate(rank, DType::kFloat32,
                                   TensorShape::Vector(num_elements));
        }
        tasks.Write(rank, sent[rank],
                    Floats(num_elements, static_cast<float>(rank + 1)));
        const auto args = [&](const Tensor& tensor) {
          return PointToPointArgs{.device = &tasks.device(rank),
                                  .group = groups[rank],
                                  .peer = 1 - rank,
                                  .tensor = tensor};
        };
        tasks.executor(rank)->SendRecvAsync(
            args(sent[rank]), args(places[rank]),
            [&num_ended](const absl::Status& status) {
              EXPECT_THAT(status, IsOk());
              ++num_ended;
            });
      }
      tasks.RunAll();
      EXPECT_EQ(num_ended, 2);
      for (const int rank : {0, 1}) {
        EXPECT_EQ(tasks.Read(rank, places[rank]),
                  Floats(num_elements, static_cast<float>(2 - rank)));
      }
    }
    EXPECT_THAT(tasks.Remains(), IsEmpty());
  }
}

}  // namespace gpu_tasks_test
}  // namespace tutti
