#include "gpu/nccl/fake_nccl_tasks.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/device_name.h"
#include "framework/mutex.h"
#include "framework/param_resolver.h"
#include "framework/peer_access.h"
#include "gpu/cuda_devices.h"
#include "gpu/nccl/fake_nccl_runtime.h"
#include "gtest/gtest.h"
#include "resolvers/device_resolver_local.h"
#include "resolvers/step_sequence_local.h"
#include "resolvers/task_members.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

// Of one task: what the leader answers, with the task's own members and
// resources.
class TaskResolver : public ParamResolverInterface {
 public:
  TaskResolver(std::shared_ptr<ParamResolverLocal> leader,
               std::string task_name)
      : leader_(std::move(leader)), task_name_(std::move(task_name)) {}

  void CompleteParamsAsync(const DeviceAttributes& device,
                           std::shared_ptr<const CollectiveRequest> request,
                           std::shared_ptr<Cancellation> cancellation,
                           Done done) override {
    leader_->CompleteParamsAsync(
        device, std::move(request), std::move(cancellation),
        [this, done = std::move(done)](
            absl::StatusOr<std::shared_ptr<const CollectiveParams>>
                params) mutable {
          if (params.ok()) params = OfTask(**params);
          std::move(done)(std::move(params));
        });
  }
  std::string DescribeWaiting(const CollectiveRequest& request) override {
    return leader_->DescribeWaiting(request);
  }
  void EndGroup(GroupKey group_key, absl::Status reason) override {
    leader_->EndGroup(group_key, std::move(reason));
  }

 private:
  std::shared_ptr<const CollectiveParams> OfTask(
      const CollectiveParams& params) {
    auto mine = std::make_shared<CollectiveParams>(params);
    MutexLock lock(&mu_);
    std::weak_ptr<const CollGroupParams>& known =
        groups_[params.group->generation];
    mine->group = known.lock();
    if (mine->group == nullptr) {
      auto group = std::make_shared<CollGroupParams>(*params.group);
      group->resources = std::make_shared<GroupResources>();
      known = group;
      mine->group = std::move(group);
    }
    mine->task = std::make_shared<const CollTaskParams>(
        MembersOfTask(*mine->group, task_name_));
    return mine;
  }

  const std::shared_ptr<ParamResolverLocal> leader_;
  const std::string task_name_;
  Mutex mu_;
  std::map<uint64_t, std::weak_ptr<const CollGroupParams>> groups_
      ABSL_GUARDED_BY(mu_);
};

// What any task's members send each other.
class SharedPeers : public PeerAccessInterface {
 public:
  explicit SharedPeers(std::shared_ptr<BufRendezvous> transfers)
      : transfers_(std::move(transfers)) {}

  void PostToPeer(const CollGroupMember& /*peer*/, const BufKey& key,
                  const Offer& offer) override {
    transfers_->Provide(key, offer);
  }
  void RecvFromPeer(const CollGroupMember& /*peer*/, const BufKey& key,
                    const Ask& ask) override {
    transfers_->Consume(key, ask);
  }
  void CancelExecution(const CollGroupParams& /*group*/, const ExecKey& exec,
                       absl::Status reason) override {
    transfers_->CancelExecution(exec, std::move(reason));
  }
  // Other tasks still have to hear of it.
  void ForgetExecution(const ExecKey& /*exec*/) override {}
  void StartAbort(absl::Status reason) override {
    transfers_->StartAbort(std::move(reason));
  }
  std::string DescribeWaiting(const CollGroupParams& /*group*/,
                              const ExecKey& /*exec*/) override {
    return "";
  }

 private:
  const std::shared_ptr<BufRendezvous> transfers_;
};

}  // namespace

FakeNcclTasks::FakeNcclTasks(Options options)
    : environment_(options.seed),
      used_environment_(options.environment != nullptr ? *options.environment
                                                       : environment_.get()),
      devices_per_task_(options.gpus_per_task * options.devices_per_gpu),
      network_(std::make_shared<FakeNcclNetwork>()),
      leader_(ParamResolverLocal::Create({})),
      transfers_(std::make_shared<BufRendezvous>()),
      last_calls_(options.num_tasks * devices_per_task_) {
  for (int task = 0; task < options.num_tasks; ++task) {
    tasks_.push_back(MakeTask(options, task));
  }
}

// What streams still hold goes while there is a queue to tell of it.
FakeNcclTasks::~FakeNcclTasks() { RunAll(); }

FakeNcclTasks::Task FakeNcclTasks::MakeTask(const Options& options,
                                            int number) {
  Task task;
  task.gpus = std::make_unique<FakeGpuRuntime>(
      FakeGpuRuntime::Options{.num_gpus = options.gpus_per_task,
                              .memory_bytes = int64_t{1} << 24,
                              .environment = used_environment_});
  std::shared_ptr<NcclRuntime> nccl;
  if (options.has_nccl) {
    nccl = std::make_shared<FakeNcclRuntime>(network_, task.gpus.get());
  }
  auto made = CreateCudaDevices({.runtime = task.gpus.get(),
                                 .environment = used_environment_,
                                 .task = number,
                                 .devices_per_gpu = options.devices_per_gpu,
                                 .nccl = std::move(nccl)});
  std::vector<std::unique_ptr<Device>> devices;
  for (auto& device : *made) devices.push_back(std::move(device));
  task.devices = DeviceManager::Create(std::move(devices)).value();
  const std::string name =
      task.devices->devices()[0]->attributes().name.TaskName();
  task.executors =
      CollectiveExecutorMgr::Create(
          {.environment = used_environment_,
           .devices = task.devices.get(),
           .param_resolver = std::make_shared<TaskResolver>(leader_, name),
           .device_resolver =
               std::make_shared<DeviceResolverLocal>(task.devices.get()),
           .step_sequence =
               std::make_shared<StepSequenceLocal>(used_environment_.random),
           .make_peer_access =
               [transfers = transfers_](int64_t /*step*/) {
                 return std::make_unique<SharedPeers>(transfers);
               }})
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
  leader_->EndGroup(CollectiveRequest().group_key, std::move(reason));
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

void FakeNcclTasks::Call(int rank, CollectiveArgs args, int64_t step) {
  args.device = &device(rank);
  const auto call = std::make_shared<std::optional<absl::Status>>();
  calls_.push_back(call);
  last_calls_[rank] = call;
  Task& task = TaskOf(rank);
  ++task.num_running;
  executor(rank, step)
      ->ExecuteAsync(std::move(args), [call, &task](absl::Status status) {
        EXPECT_FALSE(call->has_value());
        *call = std::move(status);
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

std::vector<std::optional<absl::Status>> FakeNcclTasks::TakeCalls() {
  std::vector<std::optional<absl::Status>> ended;
  for (const CallPtr& call : calls_) ended.push_back(*call);
  calls_.clear();
  return ended;
}

std::vector<std::string> FakeNcclTasks::Remains() {
  leader_->EndAll(absl::CancelledError("the test ends"));
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
