#include "bench/gpu/suite_group.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tutti/device.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<SuiteGroup>> SuiteGroup::Create(
    SuiteMachine& machine, int num_gpus, int devices_per_gpu,
    std::shared_ptr<NcclRuntime> nccl) {
  // The constructor is private.
  std::unique_ptr<SuiteGroup> group(new SuiteGroup(machine));
  auto devices = group->MakeDevices(
      {.num_gpus = num_gpus, .devices_per_gpu = devices_per_gpu},
      std::move(nccl));
  if (!devices.ok()) return devices.status();
  auto executors =
      CreateLocalExecutorMgr(machine.environment(), devices->get());
  if (!executors.ok()) return executors.status();
  group->Add(*std::move(devices), *std::move(executors));
  return group;
}

absl::StatusOr<std::unique_ptr<SuiteGroup>> SuiteGroup::CreateTasks(
    SuiteMachine& machine, const TaskShape& shape,
    const std::shared_ptr<NcclRuntime>& nccl) {
  std::unique_ptr<SuiteGroup> group(new SuiteGroup(machine));
  for (int task = 0; task < shape.num_tasks; ++task) {
    auto devices = group->MakeDevices(
        {.task = task,
         .first_gpu = shape.shares_gpus ? 0 : task * shape.gpus_per_task,
         .num_gpus = shape.gpus_per_task,
         .devices_per_gpu = shape.devices_per_gpu},
        nccl);
    if (!devices.ok()) return devices.status();
    auto executors = group->tasks_in_process_.NewExecutors(
        machine.environment(), devices->get());
    if (!executors.ok()) return executors.status();
    group->Add(*std::move(devices), *std::move(executors));
  }
  return group;
}

SuiteGroup::~SuiteGroup() {
  if (calls_ != nullptr) Finish().IgnoreError();
  tasks_in_process_.EndAll(absl::CancelledError("the check ends"));
}

absl::StatusOr<std::unique_ptr<DeviceManager>> SuiteGroup::MakeDevices(
    const Part& part, std::shared_ptr<NcclRuntime> nccl) const {
  auto made = CreateCudaDevices({.runtime = &machine_.runtime(),
                                 .environment = machine_.environment(),
                                 .task = part.task,
                                 .devices_per_gpu = part.devices_per_gpu,
                                 .nccl = std::move(nccl)});
  if (!made.ok()) return made.status();
  std::vector<std::unique_ptr<Device>> devices;
  for (auto& device : *made) {
    const int gpu = device->gpu() - part.first_gpu;
    if (gpu >= 0 && gpu < part.num_gpus) devices.push_back(std::move(device));
  }
  return DeviceManager::Create(std::move(devices));
}

void SuiteGroup::Add(std::unique_ptr<DeviceManager> devices,
                     std::unique_ptr<CollectiveExecutorMgr> executors) {
  devices_per_task_ = static_cast<int>(devices->devices().size());
  std::shared_ptr<CollectiveExecutor> executor =
      executors->FindOrCreate(/*step_id=*/1);
  tasks_.push_back({.devices = std::move(devices),
                    .executors = std::move(executors),
                    .executor = std::move(executor)});
}

CudaDevice& SuiteGroup::device(int rank) const {
  return static_cast<CudaDevice&>(
      *tasks_[rank / devices_per_task_]
           .devices->devices()[rank % devices_per_task_]);
}

std::shared_ptr<CollectiveExecutor> SuiteGroup::executor(int rank,
                                                         int64_t step) const {
  return tasks_[rank / devices_per_task_].executors->FindOrCreate(step);
}

CollectiveRequest SuiteGroup::Request(CollectiveOp op, DType dtype,
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

Tensor SuiteGroup::Allocate(int rank, DType dtype, int64_t num_elements) {
  absl::StatusOr<Tensor> tensor =
      device(rank).Allocate(dtype, TensorShape::Vector(num_elements));
  status_.Update(tensor.status());
  return tensor.ok() ? *std::move(tensor) : Tensor();
}

void SuiteGroup::Write(int rank, const Tensor& tensor, const Bytes& bytes) {
  uint8_t* const host = TakeHostMemory(bytes.size());
  if (host == nullptr || bytes.empty()) return;
  std::memcpy(host, bytes.data(), bytes.size());
  Tensor into = tensor;
  status_.Update(machine_.runtime().CopyAsync(
      into.mutable_data(), host, bytes.size(), device(rank).compute_stream()));
}

const uint8_t* SuiteGroup::Read(int rank, const Tensor& tensor) {
  uint8_t* const host = TakeHostMemory(tensor.size_bytes());
  if (host == nullptr || tensor.size_bytes() == 0) return host;
  status_.Update(machine_.runtime().CopyAsync(
      host, tensor.data(), tensor.size_bytes(), device(rank).compute_stream()));
  return host;
}

void SuiteGroup::Call(int rank, const CollectiveRequest& request, Tensor input,
                      Tensor* output) {
  Call(rank, std::make_shared<const CollectiveRequest>(request),
       std::move(input), output);
}

void SuiteGroup::Call(int rank,
                      std::shared_ptr<const CollectiveRequest> request,
                      Tensor input, Tensor* output) {
  if (calls_ == nullptr) calls_ = std::make_unique<PendingCalls>();
  if (!status_.ok()) return;
  tasks_[rank / devices_per_task_].executor->ExecuteAsync(
      {.device = &device(rank),
       .request = std::move(request),
       .input = std::move(input),
       .output = output},
      calls_->Add(absl::StrCat("the collective of rank ", rank)));
}

absl::Status SuiteGroup::Finish() {
  if (calls_ == nullptr) calls_ = std::make_unique<PendingCalls>();
  // Members whose calls others do not make would wait for ever.
  if (!status_.ok()) {
    for (const Task& task : tasks_) task.executor->StartAbort(status_);
  }
  for (int rank = 0; rank < size(); ++rank) {
    machine_.runtime()
        .CallHost(
            calls_->Add(absl::StrCat("the compute stream of rank ", rank)),
            device(rank).compute_stream())
        .IgnoreError();  // The callback has it.
  }
  status_.Update(machine_.Wait(*calls_));
  calls_.reset();
  for (int rank = 0; rank < size(); ++rank) {
    status_.Update(device(rank).free_status());
  }
  return status_;
}

void SuiteGroup::EndGroup(absl::Status reason) {
  tasks_in_process_.EndGroup(CollectiveRequest().group_key, std::move(reason));
}

uint8_t* SuiteGroup::TakeHostMemory(size_t num_bytes) {
  if (calls_ == nullptr) {
    calls_ = std::make_unique<PendingCalls>();
    machine_.host_area().Clear();
  }
  if (!status_.ok()) return nullptr;
  const absl::StatusOr<uint8_t*> memory = machine_.host_area().Take(num_bytes);
  status_.Update(memory.status());
  return memory.ok() ? *memory : nullptr;
}

}  // namespace tutti
