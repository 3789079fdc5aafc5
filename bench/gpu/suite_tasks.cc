#include "bench/gpu/suite_tasks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tutti/tensor.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<SuiteTasks>> SuiteTasks::Create(
    SuiteMachine& machine, int num_tasks,
    const std::shared_ptr<NcclRuntime>& nccl) {
  machine.host_area().Clear();
  auto group = SuiteGroup::CreateTasks(machine, {.num_tasks = num_tasks}, nccl);
  if (!group.ok()) return group.status();
  // The constructor is private.
  std::unique_ptr<SuiteTasks> tasks(new SuiteTasks(*std::move(group)));
  for (int rank = 0; rank < num_tasks; ++rank) {
    absl::Status status = tasks->MakeTensors(rank);
    if (!status.ok()) return status;
  }
  return tasks;
}

absl::Status SuiteTasks::MakeTensors(int rank) {
  for (Tensor* const tensor : {&inputs_[rank], &outputs_[rank]}) {
    auto allocated =
        device(rank).Allocate(DType::kUint8, TensorShape::Vector(1));
    if (!allocated.ok()) return allocated.status();
    *tensor = *std::move(allocated);
  }
  const absl::StatusOr<uint8_t*> byte = machine_.host_area().Take(1);
  if (!byte.ok()) return byte.status();
  **byte = static_cast<uint8_t>(rank + 1);
  return machine_.runtime().CopyAsync(inputs_[rank].mutable_data(), *byte, 1,
                                      device(rank).compute_stream());
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
                      .input = inputs_[rank],
                      .output = &outputs_[rank]},
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
  absl::Status status =
      machine_.runtime().CopyAsync(*byte, outputs_[rank].data(), 1, stream);
  if (status.ok()) status = machine_.WaitFor(stream);
  if (!status.ok()) return status;
  return **byte;
}

}  // namespace tutti
