#include "gpu/suite/suite_tasks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/device.h"
#include "framework/dtype.h"
#include "framework/tensor_shape.h"
#include "gpu/cuda_devices.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<SuiteTasks>> SuiteTasks::Create(
    SuiteMachine& machine, int num_tasks,
    const std::shared_ptr<NcclRuntime>& nccl) {
  machine.host_area().Clear();
  // The constructor is private.
  std::unique_ptr<SuiteTasks> tasks(new SuiteTasks(machine));
  for (int number = 0; number < num_tasks; ++number) {
    absl::Status status = tasks->Add(number, nccl);
    if (!status.ok()) return status;
  }
  return tasks;
}

SuiteTasks::~SuiteTasks() {
  tasks_in_process_.EndAll(absl::CancelledError("the check ends"));
}

absl::Status SuiteTasks::Add(int number,
                             const std::shared_ptr<NcclRuntime>& nccl) {
  auto made = CreateCudaDevices({.runtime = &machine_.runtime(),
                                 .environment = machine_.environment(),
                                 .task = number,
                                 .nccl = nccl});
  if (!made.ok()) return made.status();
  std::vector<std::unique_ptr<Device>> devices;
  for (auto& device : *made) {
    if (device->gpu() == number) devices.push_back(std::move(device));
  }
  auto manager = DeviceManager::Create(std::move(devices));
  if (!manager.ok()) return manager.status();
  Task& task = tasks_.emplace_back();
  task.devices = *std::move(manager);
  auto executors = tasks_in_process_.NewExecutors(machine_.environment(),
                                                  task.devices.get());
  if (!executors.ok()) return executors.status();
  task.executors = *std::move(executors);
  for (Tensor* const tensor : {&task.input, &task.output}) {
    auto allocated =
        device(number).Allocate(DType::kUint8, TensorShape::Vector(1));
    if (!allocated.ok()) return allocated.status();
    *tensor = *std::move(allocated);
  }
  const absl::StatusOr<uint8_t*> byte = machine_.host_area().Take(1);
  if (!byte.ok()) return byte.status();
  **byte = static_cast<uint8_t>(number + 1);
  return machine_.runtime().CopyAsync(task.input.mutable_data(), *byte, 1,
                                      device(number).compute_stream());
}

CudaDevice& SuiteTasks::device(int rank) const {
  return static_cast<CudaDevice&>(*tasks_[rank].devices->devices()[0]);
}

std::shared_ptr<CollectiveExecutor> SuiteTasks::executor(int rank,
                                                         int64_t step) const {
  return tasks_[rank].executors->FindOrCreate(step);
}

void SuiteTasks::Call(int rank, int64_t step, PendingCalls* calls) {
  CollectiveRequest request;
  request.rank = rank;
  request.group_size = size();
  request.device_type = CudaDevice::kType;
  request.op = AllReduce{};
  request.dtype = DType::kUint8;
  request.shape = TensorShape::Vector(1);
  request.impl_details.implementation = "NcclReduce";
  executor(rank, step)
      ->ExecuteAsync({.device = &device(rank),
                      .request = std::make_shared<const CollectiveRequest>(
                          std::move(request)),
                      .input = tasks_[rank].input,
                      .output = &tasks_[rank].output},
                     calls->Add(absl::StrCat("NcclReduce of rank ", rank)));
}

absl::Status SuiteTasks::CheckSums(int64_t step) {
  PendingCalls calls;
  for (int rank = 0; rank < size(); ++rank) Call(rank, step, &calls);
  absl::Status status = machine_.Wait(calls);
  const int sum = size() * (size() + 1) / 2;
  for (int rank = 0; status.ok() && rank < size(); ++rank) {
    const absl::StatusOr<uint8_t> found = Read(rank);
    if (!found.ok()) return found.status();
    if (*found != sum) {
      status = absl::InternalError(
          absl::StrCat("rank ", rank, " has the sum ", *found, ", not ", sum));
    }
  }
  return status;
}

absl::StatusOr<uint8_t> SuiteTasks::Read(int rank) {
  const absl::StatusOr<uint8_t*> byte = machine_.host_area().Take(1);
  if (!byte.ok()) return byte.status();
  const GpuStream stream = device(rank).compute_stream();
  absl::Status status = machine_.runtime().CopyAsync(
      *byte, tasks_[rank].output.data(), 1, stream);
  if (status.ok()) status = machine_.WaitFor(stream);
  if (!status.ok()) return status;
  return **byte;
}

void SuiteTasks::EndGroup(absl::Status reason) {
  tasks_in_process_.EndGroup(CollectiveRequest().group_key, std::move(reason));
}

}  // namespace tutti
