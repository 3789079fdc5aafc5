// GPUs of several processes, whose bytes go through pinned memory and MPI. The
// tests that each process of a job runs, in step with the others:
// mpirun_test.py starts them.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/await.h"
#include "framework/blocking_counter.h"
#include "framework/cancellation.h"
#include "framework/collective_executor_mgr.h"
#include "framework/collective_request.h"
#include "framework/collective_type.h"
#include "framework/default_environment.h"
#include "framework/device.h"
#include "framework/dtype.h"
#include "framework/reduction_test_data.h"
#include "framework/tensor.h"
#include "gmock/gmock.h"
#include "gpu/cuda_device.h"
#include "gpu/cuda_devices.h"
#include "gpu/fake_gpu_runtime.h"
#include "gpu/gpu_cases.h"
#include "gtest/gtest.h"
#include "remote/mpi/mpi_runtime.h"
#include "remote/mpi/mpi_transport.h"
#include "runtime/cluster_runtime.h"
#include "tests/conformance/case.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/implementation_under_test.h"
#include "tests/status_matchers.h"
#include "tools/element.h"

namespace tutti {
namespace {

using conformance::Case;
using conformance::Expectation;
using conformance::ImplementationUnderTest;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kLimit = absl::Seconds(60);

// Of this process; there is one MPI.
DefaultEnvironment& Machine() {
  static DefaultEnvironment environment(2);
  return environment;
}
MpiRuntime* mpi = nullptr;

// One member's call of a collective and what became of it.
struct Call {
  int device = 0;  // Of this process.
  CollectiveRequest request;
  CaseBuffers buffers;
  bool has_output = true;
  absl::Status status = absl::UnknownError("not ended");
  BlockingCounter ended{1};

  StatusCallback Set() {
    return [this](absl::Status ended_with) {
      status = std::move(ended_with);
      ended.DecrementCount();
    };
  }
  absl::Status Wait() {
    ended.Wait();
    return status;
  }
};

// The parameter says how many devices each process has.
class GpuMpiTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    gpus_ = std::make_unique<FakeGpuRuntime>(FakeGpuRuntime::Options{
        .memory_bytes = int64_t{1} << 28, .environment = Machine().get()});
    const auto cluster = ClusterOf(*mpi);
    ASSERT_THAT(cluster, IsOk());
    auto runtime = ClusterRuntime::Create(
        {.cluster = *cluster,
         .environment = Machine().get(),
         .make_devices =
             [&](uint64_t incarnation) {
               return MakeDevices(*cluster, incarnation);
             },
         .make_transport =
             [&](uint64_t incarnation) {
               return CreateMpiTransport({.runtime = mpi,
                                          .cluster = *cluster,
                                          .incarnation = incarnation,
                                          .environment = Machine().get()});
             }});
    ASSERT_THAT(runtime, IsOk());
    runtime_ = *std::move(runtime);
    ASSERT_THAT(Await([&](StatusCallback done) {
                  runtime_->Join(Machine().get().clock->Now() + kLimit, nullptr,
                                 std::move(done));
                }),
                IsOk());
  }

  void TearDown() override {
    EXPECT_THAT(Await([&](StatusCallback done) {
                  runtime_->Leave(Machine().get().clock->Now() + kLimit,
                                  std::move(done));
                }),
                IsOk());
    runtime_.reset();
    EXPECT_THAT(gpus_->Mistakes(), IsEmpty());
  }

  absl::StatusOr<std::vector<std::unique_ptr<Device>>> MakeDevices(
      const ClusterSpec& cluster, uint64_t incarnation) {
    auto made = CreateCudaDevices({.runtime = gpus_.get(),
                                   .environment = Machine().get(),
                                   .job = cluster.job,
                                   .task = cluster.this_task,
                                   .incarnation = incarnation,
                                   .devices_per_gpu = num_devices()});
    if (!made.ok()) return made.status();
    std::vector<std::unique_ptr<Device>> devices;
    for (auto& device : *made) devices.push_back(std::move(device));
    return devices;
  }

  static int num_devices() { return GetParam(); }
  int task() const { return runtime_->cluster().this_task; }
  int num_tasks() const { return runtime_->cluster().num_tasks(); }
  bool is_last() const { return task() == num_tasks() - 1; }
  conformance::Grid grid() const {
    return {.tasks = num_tasks(), .devices = num_devices()};
  }
  CudaDevice& device(int index) {
    return static_cast<CudaDevice&>(*runtime_->devices()[index]);
  }

  // Puts `bytes` into the tensor, on the device's compute stream.
  void Write(int index, Tensor tensor, Bytes bytes) {
    if (bytes.empty()) return;
    const Bytes& source = sources_.emplace_back(std::move(bytes));
    ASSERT_EQ(source.size(), tensor.size_bytes());
    EXPECT_THAT(gpus_->CopyAsync(tensor.mutable_data(), source.data(),
                                 source.size(), device(index).compute_stream()),
                IsOk());
  }

  Bytes Read(const Tensor& tensor) const {
    if (tensor.size_bytes() == 0) return {};
    return gpus_->Read(tensor.data(), tensor.size_bytes()).value();
  }

  // The calls of the members here, with inputs that are still being written.
  // The same on all processes: the next instance of the group.
  std::deque<Call> Calls(const std::string& implementation, const Case& c,
                         const conformance::Inputs& inputs) {
    const auto requests = RequestsOf(c, implementation, ++last_instance_);
    std::deque<Call> calls;
    for (int rank = 0; rank < c.grid.size(); ++rank) {
      const int index = DeviceIndex(c, rank);
      if (index / num_devices() != task()) continue;
      Call& call = calls.emplace_back();
      call.device = index % num_devices();
      call.request = *requests[rank];
      call.request.rank = rank;
      call.request.device_type = CudaDevice::kType;
      call.buffers = MakeCaseBuffers(device(call.device), c, rank);
      call.has_output = HasOutput(c.type, rank, c.root);
      if (call.buffers.input.size_bytes() > 0) {
        Write(call.device, call.buffers.input, Joined({inputs[rank]}));
      }
    }
    return calls;
  }

  // The same instance once more, with the same tensors.
  static std::deque<Call> Again(const std::deque<Call>& calls) {
    std::deque<Call> again(calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      again[i].device = calls[i].device;
      again[i].request = calls[i].request;
      again[i].buffers = calls[i].buffers;
      again[i].has_output = calls[i].has_output;
    }
    return again;
  }

  void Start(Call& call, int64_t step = 1,
             std::shared_ptr<Cancellation> cancellation = nullptr) {
    runtime_->manager().FindOrCreate(step)->ExecuteAsync(
        {.device = &device(call.device),
         .request = std::make_shared<const CollectiveRequest>(call.request),
         .input = call.buffers.input,
         .output = call.has_output ? &call.buffers.output : nullptr,
         .cancellation = std::move(cancellation)},
        call.Set());
  }

  // Compares the bits of the members' outputs here with what the case's
  // definition says, and sums with those of the schedule's order.
  void RunCase(const ImplementationUnderTest& under_test, const Case& c) {
    SCOPED_TRACE(absl::StrCat(under_test.name, " ", ToString(c)));
    const auto inputs =
        conformance::MakeInputs(under_test, c, /*seed=*/last_instance_);
    const auto expected = Expectation::Create(under_test, c, inputs);
    ASSERT_THAT(expected, IsOk());
    std::deque<Call> calls = Calls(under_test.name, c, *inputs);
    for (Call& call : calls) Start(call);
    for (Call& call : calls) ASSERT_THAT(call.Wait(), IsOk());
    for (const Call& call : calls) {
      if (!call.has_output) continue;
      ASSERT_EQ(Read(call.buffers.output),
                Joined((*expected)->output(call.request.rank)))
          << call.request.rank;
    }
  }

  // An all-reduce that is right.
  void RunGoodOne() {
    RunCase(ScheduleNamed("RingReduce"), {.grid = grid(), .length = 30'001});
  }

  std::unique_ptr<FakeGpuRuntime> gpus_;
  std::unique_ptr<ClusterRuntime> runtime_;
  std::deque<Bytes> sources_;
  InstanceKey last_instance_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Devices, GpuMpiTest, testing::Values(1, 2),
                         testing::PrintToStringParamName());

TEST_P(GpuMpiTest, AllSchedulesHaveTheBitsOfTheHost) {
  for (const std::string& name : ScheduleNames()) {
    const ImplementationUnderTest under_test = ScheduleNamed(name);
    for (const CollectiveType type : under_test.traits().collectives) {
      for (const Case& c : SampleCases(under_test, type, grid())) {
        ASSERT_NO_FATAL_FAILURE(RunCase(under_test, c));
      }
    }
  }
}

// Fewer elements than members, such as fit into a message, more than MPI sends
// without asking, and more than one chunk between each two processes.
TEST_P(GpuMpiTest, CollectivesOfEveryLengthHaveThem) {
  const std::pair<CollectiveType, std::string> collectives[] = {
      {CollectiveType::kAllReduce, "RingReduce"},
      {CollectiveType::kAllGather, "RingGather"},
      {CollectiveType::kBroadcast, "HierarchicalTreeBroadcast"},
      {CollectiveType::kReduceScatter, "RingReduceScatter"},
      {CollectiveType::kAllToAll, "AllToAll"}};
  for (const auto& [type, name] : collectives) {
    const ImplementationUnderTest under_test = ScheduleNamed(name);
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      for (const int64_t length : {0, 1, 7, 4099, 40'001, 1'600'001}) {
        const bool is_of_block =
            conformance::HasBlocks(type) && length > conformance::kMaxBlock;
        const Case c = {
            .type = type,
            .grid = grid(),
            .dtype = dtype,
            .length = is_of_block ? length / grid().size() : length,
            .root = type == CollectiveType::kBroadcast ? grid().size() - 1 : 0};
        ASSERT_NO_FATAL_FAILURE(RunCase(under_test, c));
      }
    }
  }
}

// Rank 1 does not come: the others have lent what they staged, and ask for
// more.
TEST_P(GpuMpiTest, ACancellationOfOneEndsItOnAll) {
  if (grid().size() == 1) return;
  int64_t step = 1;
  for (const int64_t length : {100, 1'000'001}) {
    SCOPED_TRACE(length);
    const Case c = {.grid = grid(), .length = length};
    const auto inputs =
        conformance::MakeInputs(ScheduleNamed("RingReduce"), c, /*seed=*/1);
    std::deque<Call> calls = Calls("RingReduce", c, *inputs);
    // So that the instance is known.
    for (Call& call : calls) Start(call);
    for (Call& call : calls) ASSERT_THAT(call.Wait(), IsOk());

    // What failed in a step is of no use for the next collective.
    ++step;
    std::deque<Call> cancelled = Again(calls);
    const auto cancellation = std::make_shared<Cancellation>();
    for (Call& call : cancelled) {
      if (call.request.rank != 1) {
        Start(call, step, call.request.rank == 0 ? cancellation : nullptr);
      }
    }
    if (task() == 0) cancellation->Cancel(absl::AbortedError("not any more"));
    for (Call& call : cancelled) {
      if (call.request.rank == 1) continue;
      EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kAborted,
                                        HasSubstr("not any more")));
    }
    ASSERT_NO_FATAL_FAILURE(RunGoodOne());
  }
}

TEST_P(GpuMpiTest, ADTypeThatDiffersEndsItOnAll) {
  if (num_tasks() == 1) return;
  const ImplementationUnderTest under_test = ScheduleNamed("RingReduce");
  const Case c = {.grid = grid(),
                  .dtype = is_last() ? DType::kFloat16 : DType::kFloat32,
                  .length = 100};
  const auto inputs = conformance::MakeInputs(under_test, c, /*seed=*/1);
  std::deque<Call> calls = Calls(under_test.name, c, *inputs);
  for (Call& call : calls) Start(call, /*step=*/2);
  for (Call& call : calls) {
    EXPECT_THAT(call.Wait(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("float16"), HasSubstr("float32"))));
  }
  ASSERT_NO_FATAL_FAILURE(RunGoodOne());
}

// In the last process, wherever it comes.
TEST_P(GpuMpiTest, ACallOfTheRuntimeThatFailsEndsItOnAll) {
  if (grid().size() == 1) return;
  const ImplementationUnderTest under_test = ScheduleNamed("RingReduce");
  const Case c = {.grid = grid(), .length = 300'001};
  const auto inputs = conformance::MakeInputs(under_test, c, /*seed=*/1);
  int64_t step = 1;
  for (const GpuCall gpu_call :
       {GpuCall::kAllocatePinned, GpuCall::kCopyAsync, GpuCall::kCreateEvent,
        GpuCall::kLaunchReduce}) {
    SCOPED_TRACE(static_cast<int>(gpu_call));
    std::deque<Call> calls = Calls(under_test.name, c, *inputs);
    if (is_last()) {
      gpus_->FailCall(gpu_call, /*num_good=*/0, absl::InternalError("no luck"));
    }
    // What failed in a step is of no use for the next collective.
    ++step;
    for (Call& call : calls) Start(call, step);
    for (Call& call : calls) {
      EXPECT_THAT(call.Wait(),
                  StatusIs(absl::StatusCode::kInternal, HasSubstr("no luck")));
    }
    ASSERT_NO_FATAL_FAILURE(RunGoodOne());
  }
}

TEST_P(GpuMpiTest, ASpoiltGpuEndsItOnAll) {
  if (grid().size() == 1) return;
  const ImplementationUnderTest under_test = ScheduleNamed("RingReduce");
  const Case c = {.grid = grid(), .length = 300'001};
  const auto inputs = conformance::MakeInputs(under_test, c, /*seed=*/1);
  std::deque<Call> calls = Calls(under_test.name, c, *inputs);
  if (is_last()) {
    gpus_->FailStream(device(0).compute_stream(),
                      absl::InternalError("illegal address"));
  }
  for (Call& call : calls) Start(call);
  for (Call& call : calls) {
    EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kInternal,
                                      HasSubstr("illegal address")));
  }
}

// Tensors by their names, of each process's first device.
class GpuMpiNamedTest : public GpuMpiTest {
 protected:
  // Of so many elements, all of them `value`.
  Tensor Filled(DType dtype, int64_t num_elements, int value) {
    const Tensor tensor =
        device(0).Allocate(dtype, TensorShape::Vector(num_elements)).value();
    Write(0, tensor, Elements(dtype, num_elements, value));
    return tensor;
  }

  static Bytes Elements(DType dtype, int64_t num_elements, int value) {
    Bytes bytes(static_cast<size_t>(num_elements) * SizeOf(dtype));
    for (size_t at = 0; at < bytes.size(); at += SizeOf(dtype)) {
      StoreFloating(dtype, value,
                    reinterpret_cast<std::byte*>(bytes.data()) + at);
    }
    return bytes;
  }

  std::vector<int> ShuffledOrder(int num_tensors) const {
    std::vector<int> order(static_cast<size_t>(num_tensors));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(),
                 std::mt19937(static_cast<unsigned>(task())));
    return order;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, GpuMpiNamedTest, testing::Values(1, 2),
                         testing::PrintToStringParamName());

TEST_P(GpuMpiNamedTest, TensorsComeInAnyOrder) {
  constexpr int kNumTensors = 40;
  const auto dtype_of = [](int which) {
    return which % 4 < 2 ? DType::kFloat32 : DType::kFloat16;
  };
  // The last ones are more than a chunk.
  const auto length_of = [](int which) {
    return which < kNumTensors - 2 ? which * 37 : 300'001;
  };
  std::deque<Call> calls(kNumTensors);
  for (const int which : ShuffledOrder(kNumTensors)) {
    Call& call = calls[which];
    const bool gathers = which % 2 == 1;
    // Gathered tensors differ in length.
    const int64_t length = length_of(which) + (gathers ? task() : 0);
    call.buffers.input = Filled(dtype_of(which), length, task() + which % 5);
    NamedTensor tensor = {.name = absl::StrCat("tensor ", which),
                          .input = call.buffers.input,
                          .output = &call.buffers.output};
    gathers ? runtime_->coordinator().AllGather(tensor, call.Set())
            : runtime_->coordinator().AllReduce(tensor, call.Set());
  }
  for (int which = 0; which < kNumTensors; ++which) {
    SCOPED_TRACE(which);
    Call& call = calls[which];
    ASSERT_THAT(call.Wait(), IsOk());
    int sum = 0;
    Bytes gathered;
    for (int rank = 0; rank < num_tasks(); ++rank) {
      const int value = rank + which % 5;
      sum += value;
      const Bytes block =
          Elements(dtype_of(which), length_of(which) + rank, value);
      gathered.insert(gathered.end(), block.begin(), block.end());
    }
    EXPECT_EQ(Read(call.buffers.output),
              which % 2 == 1
                  ? gathered
                  : Elements(dtype_of(which), length_of(which), sum));
  }
}

TEST_P(GpuMpiNamedTest, ADTypeThatDiffersIsNoErrorOfTheOthers) {
  if (num_tasks() == 1) return;
  constexpr int kNumTensors = 6, kBad = 3;
  std::deque<Call> calls(kNumTensors);
  for (const int which : ShuffledOrder(kNumTensors)) {
    const DType dtype =
        which == kBad && is_last() ? DType::kFloat16 : DType::kFloat32;
    calls[which].buffers.input = Filled(dtype, 20'000, which);
    runtime_->coordinator().AllReduce({.name = absl::StrCat("tensor ", which),
                                       .input = calls[which].buffers.input,
                                       .output = &calls[which].buffers.output},
                                      calls[which].Set());
  }
  for (int which = 0; which < kNumTensors; ++which) {
    const absl::Status status = calls[which].Wait();
    if (which == kBad) {
      EXPECT_THAT(status,
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr("float16"), HasSubstr("float32"))));
      continue;
    }
    ASSERT_THAT(status, IsOk());
    EXPECT_EQ(Read(calls[which].buffers.output),
              Elements(DType::kFloat32, 20'000, which * num_tasks()));
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  tutti::MpiRuntime runtime({.environment = tutti::Machine().get()});
  const absl::Status status = runtime.Start();
  if (!status.ok()) return 2;
  tutti::mpi = &runtime;
  const int result = RUN_ALL_TESTS();
  runtime.Shutdown();
  return result;
}
