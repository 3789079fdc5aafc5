#include "bench/gpu/gpu_group.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tutti/device.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {

GpuGroup::GpuGroup(GpuMachine& machine, const GroupShape& shape)
    : machine_(machine) {
  for (int task = 0; task < shape.num_tasks; ++task) AddTask(shape, task);
}

GpuGroup::~GpuGroup() {
  if (calls_ != nullptr) {
    const absl::Status reason = absl::CancelledError("the check ends");
    for (const Task& task : tasks_) task.executor->StartAbort(reason);
    TryToFinish().IgnoreError();
  }
  tasks_in_process_.EndAll(absl::CancelledError("the check ends"));
}

void GpuGroup::AddTask(const GroupShape& shape, int task) {
  const Environment& environment = machine_.environment;
  auto all = CreateCudaDevices({.runtime = &machine_.runtime,
                                .environment = environment,
                                .task = task,
                                .devices_per_gpu = shape.devices_per_gpu,
                                .nccl = shape.nccl})
                 .value();
  const int first_gpu = shape.shares_gpus ? 0 : task * shape.gpus_per_task;
  std::vector<std::unique_ptr<Device>> chosen;
  for (auto& device : all) {
    const int gpu = device->gpu() - first_gpu;
    if (gpu >= 0 && gpu < shape.gpus_per_task) {
      chosen.push_back(std::move(device));
    }
  }
  devices_per_task_ = static_cast<int>(chosen.size());
  auto devices = DeviceManager::Create(std::move(chosen)).value();
  auto executors =
      (shape.num_tasks == 1
           ? CreateLocalExecutorMgr(environment, devices.get())
           : tasks_in_process_.NewExecutors(environment, devices.get()))
          .value();
  auto executor = executors->FindOrCreate(/*step_id=*/1);
  tasks_.push_back({.devices = std::move(devices),
                    .executors = std::move(executors),
                    .executor = std::move(executor)});
}

CudaDevice& GpuGroup::device(int rank) const {
  return static_cast<CudaDevice&>(
      *tasks_[rank / devices_per_task_]
           .devices->devices()[rank % devices_per_task_]);
}

std::shared_ptr<CollectiveExecutor> GpuGroup::executor(int rank,
                                                       int64_t step) const {
  return tasks_[rank / devices_per_task_].executors->FindOrCreate(step);
}

CollectiveRequest GpuGroup::Request(CollectiveOp op, DType dtype,
                                    int64_t num_elements) {
  CollectiveRequest request;
  request.group_size = size();
  request.device_type = CudaDevice::kType;
  request.instance_key = ++last_instance_;
  request.op = std::move(op);
  request.dtype = dtype;
  request.shape = TensorShape::Vector(num_elements);
  return request;
}

Tensor GpuGroup::Allocate(int rank, DType dtype, int64_t num_elements,
                          int64_t skipped) {
  const int64_t end = skipped + num_elements;
  const Tensor whole =
      device(rank).Allocate(dtype, TensorShape::Vector(end)).value();
  return skipped == 0 ? whole : whole.Slice(skipped, end).value();
}

void GpuGroup::Write(int rank, const Tensor& tensor, const Bytes& bytes) {
  uint8_t* const host = TakeHostMemory(bytes.size());
  if (bytes.empty()) return;
  std::memcpy(host, bytes.data(), bytes.size());
  Tensor into = tensor;
  Ok(machine_.runtime.CopyAsync(into.mutable_data(), host, bytes.size(),
                                device(rank).compute_stream()));
}

const uint8_t* GpuGroup::Read(int rank, const Tensor& tensor) {
  uint8_t* const host = TakeHostMemory(tensor.size_bytes());
  if (tensor.size_bytes() == 0) return host;
  Ok(machine_.runtime.CopyAsync(host, tensor.data(), tensor.size_bytes(),
                                device(rank).compute_stream()));
  return host;
}

void GpuGroup::Call(int rank, const CollectiveRequest& request, Tensor input,
                    Tensor* output) {
  Call(rank, std::make_shared<const CollectiveRequest>(request),
       std::move(input), output);
}

void GpuGroup::Call(int rank, std::shared_ptr<const CollectiveRequest> request,
                    Tensor input, Tensor* output) {
  if (calls_ == nullptr) calls_ = std::make_unique<PendingCalls>();
  tasks_[rank / devices_per_task_].executor->ExecuteAsync(
      {.device = &device(rank),
       .request = std::move(request),
       .input = std::move(input),
       .output = output},
      calls_->Add(absl::StrCat("the collective of rank ", rank)));
}

absl::Status GpuGroup::TryToFinish() {
  if (calls_ == nullptr) calls_ = std::make_unique<PendingCalls>();
  for (int rank = 0; rank < size(); ++rank) {
    machine_.runtime
        .CallHost(
            calls_->Add(absl::StrCat("the compute stream of rank ", rank)),
            device(rank).compute_stream())
        .IgnoreError();  // The callback has the error.
  }
  absl::Status status = machine_.waiter.Wait(*calls_);
  calls_.reset();
  for (int rank = 0; rank < size(); ++rank) {
    status.Update(device(rank).free_status());
  }
  return status;
}

void GpuGroup::EndGroup(absl::Status reason) {
  tasks_in_process_.EndGroup(CollectiveRequest().group_key, std::move(reason));
}

uint8_t* GpuGroup::TakeHostMemory(size_t num_bytes) {
  if (calls_ == nullptr) {
    calls_ = std::make_unique<PendingCalls>();
    host_buffers_.clear();
  }
  host_buffers_.push_back(machine_.host_memory->Take(num_bytes).value());
  return reinterpret_cast<uint8_t*>(host_buffers_.back().data());
}

}  // namespace tutti
