#include "gpu/testing/gpu_mpi_process.h"

#include <iostream>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/mpi_transport.h"

namespace tutti {
namespace {

using conformance::Case;
using conformance::Expectation;
using conformance::ImplementationUnderTest;
using ::testing::IsEmpty;

constexpr absl::Duration kLimit = absl::Seconds(60);

// Environment of this process, which has one MPI.
DefaultEnvironment& Machine() {
  static DefaultEnvironment environment(2);
  return environment;
}
MpiRuntime* mpi = nullptr;

// GPUs of finished tests, to whose memory MPI may still write, and bytes that
// they may still read.
struct KeptGpus {
  std::deque<Bytes> sources;
  std::unique_ptr<FakeGpuRuntime> gpus;
};
std::vector<KeptGpus>* gpus_of_mpi = nullptr;

absl::Time Deadline() { return Machine().get().clock->Now() + kLimit; }

absl::StatusOr<std::vector<std::unique_ptr<Device>>> MakeDevices(
    GpuRuntime& gpus, const ClusterSpec& cluster, uint64_t incarnation,
    int devices_per_gpu) {
  auto made = CreateCudaDevices({.runtime = &gpus,
                                 .environment = Machine().get(),
                                 .job = cluster.job,
                                 .task = cluster.this_task,
                                 .incarnation = incarnation,
                                 .devices_per_gpu = devices_per_gpu});
  if (!made.ok()) return made.status();
  std::vector<std::unique_ptr<Device>> devices;
  for (auto& device : *made) devices.push_back(std::move(device));
  return devices;
}

}  // namespace

void GpuMpiTest::SetUp() {
  gpus_ = std::make_unique<FakeGpuRuntime>(
      FakeGpuRuntime::Options{.num_gpus = num_gpus(),
                              .memory_bytes = int64_t{1} << 28,
                              .host_may_touch = is_cuda_aware(),
                              .environment = Machine().get()});
  const auto cluster = ClusterOf(*mpi);
  ASSERT_THAT(cluster, IsOk());
  auto runtime = ClusterRuntime::Create(
      {.cluster = *cluster,
       .environment = Machine().get(),
       .make_devices =
           [&](uint64_t incarnation) {
             return MakeDevices(*gpus_, *cluster, incarnation,
                                num_devices() / num_gpus());
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
  EXPECT_THAT(Await([&](StatusCallback done) {
                runtime_->Join(Deadline(), nullptr, std::move(done));
              }),
              IsOk());
}

bool GpuMpiTest::is_cuda_aware() { return mpi->is_cuda_aware(); }

void GpuMpiTest::TearDown() {
  if (runtime_ == nullptr) return;  // SetUp() has reported the reason.
  EXPECT_THAT(Await([&](StatusCallback done) {
                runtime_->Leave(Deadline(), std::move(done));
              }),
              IsOk());
  runtime_.reset();
  EXPECT_THAT(gpus_->Mistakes(), IsEmpty());
  gpus_of_mpi->push_back({std::move(sources_), std::move(gpus_)});
}

void GpuMpiTest::Write(int device, Tensor tensor, Bytes bytes) {
  if (bytes.empty()) return;
  const Bytes& source = sources_.emplace_back(std::move(bytes));
  ASSERT_EQ(source.size(), tensor.size_bytes());
  EXPECT_THAT(
      gpus_->CopyAsync(tensor.mutable_data(), source.data(), source.size(),
                       this->device(device).compute_stream()),
      IsOk());
}

Bytes GpuMpiTest::Read(const Tensor& tensor) const {
  if (tensor.size_bytes() == 0) return {};
  const auto bytes = gpus_->Read(tensor.data(), tensor.size_bytes());
  EXPECT_THAT(bytes, IsOk());
  return bytes.ok() ? *bytes : Bytes();
}

GpuMpiCalls GpuMpiTest::Calls(const std::string& implementation, const Case& c,
                              const conformance::Inputs& inputs) {
  const auto requests = RequestsOf(c, implementation, ++last_instance_);
  GpuMpiCalls calls;
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    const int index = DeviceIndex(c, rank);
    if (index / num_devices() != task()) continue;
    GpuMpiCall& call = calls.emplace_back();
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

GpuMpiCalls GpuMpiTest::Again(const GpuMpiCalls& calls) {
  GpuMpiCalls again;
  for (const GpuMpiCall& call : calls) {
    GpuMpiCall& copy = again.emplace_back();
    copy.device = call.device;
    copy.request = call.request;
    copy.buffers = call.buffers;
    copy.has_output = call.has_output;
  }
  return again;
}

void GpuMpiTest::Start(GpuMpiCall& call, int64_t step,
                       std::shared_ptr<Cancellation> cancellation) {
  runtime_->manager().FindOrCreate(step)->ExecuteAsync(
      {.device = &device(call.device),
       .request = std::make_shared<const CollectiveRequest>(call.request),
       .input = call.buffers.input,
       .output = call.has_output ? &call.buffers.output : nullptr,
       .cancellation = std::move(cancellation)},
      call.Set());
}

void GpuMpiTest::RunCase(const ImplementationUnderTest& under_test,
                         const Case& c) {
  SCOPED_TRACE(absl::StrCat(under_test.name, " ", ToString(c)));
  const auto inputs = conformance::MakeInputs(
      under_test, c, /*seed=*/static_cast<uint64_t>(last_instance_));
  const auto expected = Expectation::Create(under_test, c, inputs);
  ASSERT_THAT(expected, IsOk());
  GpuMpiCalls calls = Calls(under_test.name, c, *inputs);
  for (GpuMpiCall& call : calls) Start(call);
  for (GpuMpiCall& call : calls) EXPECT_THAT(call.Wait(), IsOk());
  for (const GpuMpiCall& call : calls) {
    if (!call.has_output) continue;
    EXPECT_TRUE(Read(call.buffers.output) ==
                Joined((*expected)->output(call.request.rank)))
        << "rank " << call.request.rank;
  }
}

int RunGpuMpiTests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool is_direct = argc == 2 && argv[1] == std::string("direct");
  std::vector<KeptGpus> gpus;
  MpiRuntime runtime(
      {.environment = Machine().get(), .is_cuda_aware = is_direct});
  const absl::Status status = runtime.Start();
  if (!status.ok()) {
    std::cerr << status << '\n';
    return 2;
  }
  mpi = &runtime;
  gpus_of_mpi = &gpus;
  const int result = RUN_ALL_TESTS();
  runtime.Shutdown();
  return result;
}

}  // namespace tutti
