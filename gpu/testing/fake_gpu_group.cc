#include "gpu/testing/fake_gpu_group.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace {

std::unique_ptr<DeviceManager> MakeDevices(
    FakeGpuRuntime& runtime, const Environment& environment,
    const FakeGpuGroup::Options& options) {
  auto made =
      CreateCudaDevices({.runtime = &runtime,
                         .environment = environment,
                         .devices_per_gpu = options.devices_per_gpu,
                         .opens_memory = true,
                         .most_landing_bytes = options.most_landing_bytes});
  std::vector<std::unique_ptr<Device>> devices;
  for (auto& device : *made) devices.push_back(std::move(device));
  return DeviceManager::Create(std::move(devices)).value();
}

}  // namespace

FakeGpuGroup::FakeGpuGroup(Options options)
    : environment_(options.seed),
      runtime_({.num_gpus = options.num_gpus,
                .memory_bytes = options.memory_bytes,
                .link = options.link,
                .keeps_host_work = options.keeps_host_work,
                .on_record = options.on_record,
                .environment = environment_.get()}),
      devices_(MakeDevices(runtime_, environment_.get(), options)),
      executors_(
          CreateLocalExecutorMgr(environment_.get(), devices_.get()).value()),
      executor_(executors_->FindOrCreate(/*step_id=*/1)),
      ended_(devices_->devices().size()) {}

// Runs everything while the queue exists, and thus frees the streams' items.
FakeGpuGroup::~FakeGpuGroup() { RunAll(); }

CudaDevice& FakeGpuGroup::device(int rank) {
  return static_cast<CudaDevice&>(*devices_->devices()[rank]);
}

CollectiveRequest FakeGpuGroup::Request(CollectiveOp op, DType dtype,
                                        int64_t num_elements) const {
  CollectiveRequest request;
  request.group_size = size();
  request.device_type = CudaDevice::kType;
  request.op = std::move(op);
  request.dtype = dtype;
  request.shape = TensorShape::Vector(num_elements);
  return request;
}

Tensor FakeGpuGroup::Allocate(int rank, DType dtype, int64_t num_elements) {
  return device(rank)
      .Allocate(dtype, TensorShape::Vector(num_elements))
      .value();
}

void FakeGpuGroup::Write(int rank, const Tensor& tensor, Bytes bytes) {
  const Bytes& source =
      *sources_.emplace_back(std::make_unique<Bytes>(std::move(bytes)));
  ASSERT_EQ(source.size(), tensor.size_bytes());
  Tensor into = tensor;
  EXPECT_THAT(runtime_.CopyAsync(into.mutable_data(), source.data(),
                                 source.size(), device(rank).compute_stream()),
              IsOk());
}

Tensor FakeGpuGroup::Copy(int rank, const Tensor& tensor) {
  Tensor copy = Allocate(rank, tensor.dtype(), tensor.num_elements());
  EXPECT_THAT(runtime_.LaunchCopy({.input = tensor.data(),
                                   .outputs = {copy.mutable_data()},
                                   .num_bytes = tensor.size_bytes()},
                                  device(rank).compute_stream()),
              IsOk());
  return copy;
}

Bytes FakeGpuGroup::Read(const Tensor& tensor) const {
  if (tensor.size_bytes() == 0) return {};
  const auto bytes = runtime_.Read(tensor.data(), tensor.size_bytes());
  EXPECT_THAT(bytes, IsOk());
  return bytes.ok() ? *bytes : Bytes();
}

void FakeGpuGroup::Call(int rank, CollectiveArgs args) {
  ended_[rank] = std::nullopt;
  Call(rank, std::move(args), [this, rank](absl::Status status) {
    EXPECT_FALSE(ended_[rank].has_value());
    ended_[rank] = std::move(status);
  });
}

void FakeGpuGroup::Call(int rank, CollectiveArgs args, StatusCallback done) {
  args.device = &device(rank);
  ++num_running_;
  executor_->ExecuteAsync(std::move(args), [this, done = std::move(done)](
                                               absl::Status status) mutable {
    std::move(done)(std::move(status));
    if (--num_running_ > 0) return;
    EXPECT_EQ(runtime_.NumEvents(), 0) << "The devices may go now.";
  });
}

void FakeGpuGroup::Call(int rank, const CollectiveRequest& request,
                        Tensor input, Tensor* output) {
  Call(rank, {.request = std::make_shared<const CollectiveRequest>(request),
              .input = std::move(input),
              .output = output});
}

std::vector<std::string> FakeGpuGroup::Remains() {
  executor_.reset();
  executors_.reset();
  devices_.reset();
  RunAll();
  std::vector<std::string> remains = runtime_.Mistakes();
  for (std::string& leak : runtime_.Leaks()) remains.push_back(std::move(leak));
  return remains;
}

}  // namespace tutti
