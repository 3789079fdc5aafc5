#include "gpu/testing/fake_nccl_tasks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"

namespace tutti {

FakeNcclTasks::FakeNcclTasks(Options options)
    : environment_(options.seed),
      used_environment_(options.environment != nullptr ? *options.environment
                                                       : environment_.get()),
      devices_per_task_(options.gpus_per_task * options.devices_per_gpu),
      network_(std::make_shared<FakeNcclNetwork>()),
      last_calls_(options.num_tasks * devices_per_task_) {
  for (int task = 0; task < options.num_tasks; ++task) {
    tasks_.push_back(MakeTask(options, task));
  }
}

// Runs everything while the queue exists, and thus frees the streams' items.
FakeNcclTasks::~FakeNcclTasks() { RunAll(); }

FakeNcclTasks::Task FakeNcclTasks::MakeTask(const Options& options,
                                            int number) {
  Task task;
  task.gpus = std::make_unique<FakeGpuRuntime>(
      FakeGpuRuntime::Options{.num_gpus = options.gpus_per_task,
                              .host = options.shares_gpus ? 0 : number,
                              .memory_bytes = options.memory_bytes,
                              .link = options.link,
                              .keeps_host_work = options.keeps_host_work,
                              .on_record = options.on_record,
                              .environment = used_environment_});
  std::shared_ptr<NcclRuntime> nccl;
  if (number < options.tasks_with_nccl) {
    const auto fake =
        std::make_shared<FakeNcclRuntime>(network_, task.gpus.get());
    if (number >= options.first_that_blocks) fake->Block(options.why_blocking);
    nccl = fake;
  }
  auto made =
      CreateCudaDevices({.runtime = task.gpus.get(),
                         .environment = used_environment_,
                         .task = number,
                         .devices_per_gpu = options.devices_per_gpu,
                         .opens_memory = options.opens_memory,
                         .most_landing_bytes = options.most_landing_bytes,
                         .nccl = std::move(nccl)});
  std::vector<std::unique_ptr<Device>> devices;
  for (auto& device : *made) devices.push_back(std::move(device));
  task.devices = DeviceManager::Create(std::move(devices)).value();
  task.executors =
      (options.is_local
           ? CreateLocalExecutorMgr(used_environment_, task.devices.get())
           : tasks_in_process_.NewExecutors(used_environment_,
                                            task.devices.get()))
          .value();
  return task;
}

CudaDevice& FakeNcclTasks::device(int rank) {
  return static_cast<CudaDevice&>(
      *TaskOf(rank).devices->devices()[rank % devices_per_task_]);
}

std::shared_ptr<CollectiveExecutor> FakeNcclTasks::executor(int rank,
                                                            int64_t step) {
  return TaskOf(rank).executors->FindOrCreate(step);
}

void FakeNcclTasks::EndGroup(absl::Status reason) {
  tasks_in_process_.EndGroup(CollectiveRequest().group_key, std::move(reason));
}

CollectiveRequest FakeNcclTasks::Request(CollectiveOp op, DType dtype,
                                         int64_t num_elements) const {
  CollectiveRequest request;
  request.group_size = size();
  request.device_type = CudaDevice::kType;
  request.op = std::move(op);
  request.dtype = dtype;
  request.shape = TensorShape::Vector(num_elements);
  return request;
}

Tensor FakeNcclTasks::Allocate(int rank, DType dtype,
                               const TensorShape& shape) {
  return device(rank).Allocate(dtype, shape).value();
}

void FakeNcclTasks::Write(int rank, const Tensor& tensor, Bytes bytes) {
  const Bytes& source =
      *sources_.emplace_back(std::make_unique<Bytes>(std::move(bytes)));
  ASSERT_EQ(source.size(), tensor.size_bytes());
  if (source.empty()) return;
  Tensor into = tensor;
  EXPECT_THAT(
      gpus(rank).CopyAsync(into.mutable_data(), source.data(), source.size(),
                           device(rank).compute_stream()),
      IsOk());
}

Bytes FakeNcclTasks::Read(int rank, const Tensor& tensor) {
  if (tensor.size_bytes() == 0) return {};
  const auto bytes = gpus(rank).Read(tensor.data(), tensor.size_bytes());
  EXPECT_THAT(bytes, IsOk());
  return bytes.ok() ? *bytes : Bytes();
}

void FakeNcclTasks::Call(int rank, CollectiveRequest request, Tensor input,
                         Tensor* output, int64_t step) {
  request.rank = rank;
  Call(
      rank,
      {.request = std::make_shared<const CollectiveRequest>(std::move(request)),
       .input = std::move(input),
       .output = output},
      step);
}

void FakeNcclTasks::Call(int rank, CollectiveArgs args, int64_t step,
                         StatusCallback done) {
  args.device = &device(rank);
  if (done == nullptr) {
    const auto call = std::make_shared<std::optional<absl::Status>>();
    calls_.push_back(call);
    last_calls_[rank] = call;
    done = [call](absl::Status status) {
      EXPECT_FALSE(call->has_value());
      *call = std::move(status);
    };
  }
  Task& task = TaskOf(rank);
  ++task.num_running;
  executor(rank, step)
      ->ExecuteAsync(std::move(args), [&task, done = std::move(done)](
                                          absl::Status status) mutable {
        std::move(done)(std::move(status));
        if (--task.num_running > 0) return;
        EXPECT_EQ(task.gpus->NumEvents(), 0) << "The devices may go now.";
      });
}

std::vector<std::optional<absl::Status>> FakeNcclTasks::ended() const {
  std::vector<std::optional<absl::Status>> ended;
  for (const CallPtr& call : last_calls_) {
    ended.push_back(call == nullptr ? std::nullopt : *call);
  }
  return ended;
}

std::vector<std::optional<absl::Status>> FakeNcclTasks::calls() const {
  std::vector<std::optional<absl::Status>> ended;
  for (const CallPtr& call : calls_) ended.push_back(*call);
  return ended;
}

std::vector<std::optional<absl::Status>> FakeNcclTasks::TakeCalls() {
  std::vector<std::optional<absl::Status>> ended = calls();
  calls_.clear();
  return ended;
}

std::vector<std::string> FakeNcclTasks::Remains() {
  tasks_in_process_.EndAll(absl::CancelledError("the test ends"));
  for (Task& task : tasks_) task.executors.reset();
  RunAll();
  for (Task& task : tasks_) task.devices.reset();
  RunAll();
  std::vector<std::string> remains = network_->Mistakes();
  for (Task& task : tasks_) {
    for (std::string& one : task.gpus->Mistakes()) remains.push_back(one);
    for (std::string& one : task.gpus->Leaks()) remains.push_back(one);
  }
  const int living = network_->counts().living;
  if (living > 0) remains.push_back(absl::StrCat(living, " communicators"));
  return remains;
}

}  // namespace tutti
