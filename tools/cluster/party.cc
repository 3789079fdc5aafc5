#include "tools/cluster/party.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "tools/base/text.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

class PartyOfOneProcess : public Party {
 public:
  PartyOfOneProcess(std::shared_ptr<const SelectionRules> rules,
                    DeviceMaker make_devices,
                    std::unique_ptr<DeviceManager> devices,
                    std::unique_ptr<CollectiveExecutorMgr> manager)
      : rules_(std::move(rules)),
        make_devices_(std::move(make_devices)),
        devices_(std::move(devices)),
        manager_(std::move(manager)) {}

  int num_ranks() const override { return num_local(); }
  int first_rank() const override { return 0; }
  const std::vector<Device*>& devices() const override {
    return devices_->devices();
  }
  CollectiveExecutorMgr& manager() override { return *manager_; }
  SelectionPolicy policy() const override { return {.rules = rules_}; }
  bool reports() const override { return true; }
  absl::Status Align() override { return absl::OkStatus(); }
  absl::Status Agree(const absl::Status& mine) override { return mine; }
  absl::Status Combine(ReductionKind /*kind*/,
                       absl::Span<int64_t> /*numbers*/) override {
    return absl::OkStatus();
  }
  absl::Status Leave(const absl::Status& outcome) override { return outcome; }

 private:
  const std::shared_ptr<const SelectionRules> rules_;
  const DeviceMaker make_devices_;  // Outlives the devices.
  const std::unique_ptr<DeviceManager> devices_;
  const std::unique_ptr<CollectiveExecutorMgr> manager_;
};

absl::StatusOr<std::unique_ptr<DeviceManager>> MakeDevices(
    const DeviceMaker& make_devices, int num_tasks, int per_task) {
  std::vector<std::unique_ptr<Device>> all;
  for (int task = 0; task < num_tasks; ++task) {
    ASSIGN_OR_RETURN(auto devices, make_devices({.task = task,
                                                 .first_rank = task * per_task,
                                                 .num_devices = per_task}));
    for (auto& device : devices) all.push_back(std::move(device));
  }
  return DeviceManager::Create(std::move(all));
}

// Messages between collectives run on the last device of each task, in a
// separate group and step.
constexpr GroupKey kGroup = GroupKey{1} << 62;
constexpr int64_t kStep = int64_t{1} << 62;

// Instance keys of the group: one for each length of numbers, and one for each
// task that may report an error.
constexpr InstanceKey kCommands = -1;
constexpr InstanceKey kBarrier = 0;
constexpr InstanceKey kErrors = 1;
constexpr InstanceKey kFirstInstance = InstanceKey{1} << 32;

// Bytes of an error's message sent to the other tasks.
constexpr int64_t kErrorBytes = 2048;

// Bytes of a command sent to the other tasks, with a NUL at the end.
constexpr int64_t kCommandBytes = 2048;

class ClusterParty : public Party {
 public:
  ClusterParty(const Environment& environment,
               std::unique_ptr<ClusterRuntime> runtime)
      : environment_(environment),
        runtime_(std::move(runtime)),
        devices_(runtime_->devices()),
        messenger_(devices_.back()) {
    if (!devices_.front()->has_host_memory()) devices_.pop_back();
  }

  int num_ranks() const override { return num_tasks() * num_local(); }
  int first_rank() const override { return this_task() * num_local(); }
  const std::vector<Device*>& devices() const override { return devices_; }
  CollectiveExecutorMgr& manager() override { return runtime_->manager(); }
  SelectionPolicy policy() const override { return runtime_->policy(); }
  bool reports() const override { return this_task() == 0; }

  absl::Status Align() override {
    return Run(Request(kBarrier, Barrier{}), Tensor(), nullptr);
  }

  absl::Status Agree(const absl::Status& mine) override {
    int64_t first_failed = mine.ok() ? num_tasks() : this_task();
    absl::Status status = Combine(ReductionKind::kMin, {&first_failed, 1});
    if (status.ok() && first_failed < num_tasks()) {
      status = ReportError(static_cast<int>(first_failed), mine);
    }
    return mine.ok() ? status : mine;
  }

  absl::Status Combine(ReductionKind kind,
                       absl::Span<int64_t> numbers) override {
    const auto count = static_cast<int64_t>(numbers.size());
    CollectiveRequest request = Request(
        kFirstInstance + count * 16 + static_cast<int64_t>(kind), AllReduce{});
    request.dtype = DType::kInt64;
    request.shape = TensorShape::Vector(count);
    request.merge_op = kind;
    ASSIGN_OR_RETURN(auto tensor, Tensor::Wrap(request.dtype, request.shape,
                                               numbers.data()));
    return Run(std::move(request), tensor, &tensor);
  }

  absl::Status Leave(const absl::Status& outcome) override {
    const absl::Duration limit =
        outcome.ok() ? DefaultTime("leave") : DefaultTime("leave failed");
    const absl::Status status = Await([&](StatusCallback done) {
      runtime_->Leave(environment_.clock->Now() + limit, std::move(done));
    });
    return outcome.ok() ? status : outcome;
  }

  // Runs before everything else: tasks with different commands could otherwise
  // wait for each other for ever.
  absl::Status AgreeOnCommand(const std::string& command) {
    std::string mine = BoundedText(command, kCommandBytes - 1);
    mine.resize(kCommandBytes, '\0');
    CollectiveRequest request = Request(kCommands, AllGather{});
    request.dtype = DType::kUint8;
    request.shape = TensorShape::Vector(kCommandBytes);
    ASSIGN_OR_RETURN(auto input,
                     Tensor::Wrap(request.dtype, request.shape, mine.data()));
    Tensor all;
    RETURN_IF_ERROR(Run(std::move(request), input, &all));
    return CheckAlike({reinterpret_cast<const char*>(all.data()),
                       static_cast<size_t>(all.size_bytes())});
  }

 private:
  int this_task() const { return runtime_->cluster().this_task; }
  int num_tasks() const { return runtime_->cluster().num_tasks(); }

  CollectiveRequest Request(InstanceKey instance, CollectiveOp op) const {
    CollectiveRequest request;
    request.group_key = kGroup;
    request.group_size = num_tasks();
    request.rank = this_task();
    request.instance_key = instance;
    request.op = std::move(op);
    return request;
  }

  // `commands` holds kCommandBytes of each task.
  absl::Status CheckAlike(absl::string_view commands) const {
    const auto command_of = [&](int task) {
      const absl::string_view bytes =
          commands.substr(task * kCommandBytes, kCommandBytes);
      return bytes.substr(0, bytes.find('\0'));
    };
    for (int task = 1; task < num_tasks(); ++task) {
      if (command_of(task) == command_of(0)) continue;
      const ClusterSpec& cluster = runtime_->cluster();
      return absl::InvalidArgumentError(absl::StrCat(
          "the tasks run different commands: ", cluster.Label(0), ": ",
          command_of(0), ", ", cluster.Label(task), ": ", command_of(task)));
    }
    return absl::OkStatus();
  }

  // Returns the error of `task` on all tasks; `mine` is this error on `task`
  // itself.
  absl::Status ReportError(int task, const absl::Status& mine) {
    std::string text(kErrorBytes, '\0');
    if (task == this_task()) {
      text[0] = static_cast<char>(mine.code());
      mine.message().substr(0, kErrorBytes - 1).copy(&text[1], kErrorBytes - 1);
    }
    CollectiveRequest request =
        Request(kErrors + task, Broadcast{.is_source = task == this_task()});
    request.dtype = DType::kUint8;
    request.shape = TensorShape::Vector(kErrorBytes);
    ASSIGN_OR_RETURN(auto tensor,
                     Tensor::Wrap(request.dtype, request.shape, text.data()));
    RETURN_IF_ERROR(Run(std::move(request),
                        task == this_task() ? tensor : Tensor(), &tensor));
    return absl::Status(
        static_cast<absl::StatusCode>(text[0]),
        absl::StrCat(runtime_->cluster().Label(task), ": ", text.c_str() + 1));
  }

  absl::Status Run(CollectiveRequest request, Tensor input, Tensor* output) {
    return Await([&](StatusCallback done) {
      manager().FindOrCreate(kStep)->ExecuteAsync(
          {.device = messenger_,
           .request =
               std::make_shared<const CollectiveRequest>(std::move(request)),
           .input = std::move(input),
           .output = output},
          std::move(done));
    });
  }

  const Environment environment_;
  const std::unique_ptr<ClusterRuntime> runtime_;
  std::vector<Device*> devices_;
  Device* const messenger_;  // Has host memory.
};

}  // namespace

PartyFactory LocalParty(const Environment& environment,
                        std::shared_ptr<const SelectionRules> rules,
                        DeviceMaker make_devices) {
  return [environment, rules = std::move(rules),
          make_devices = std::move(make_devices)](
             int num_ranks,
             int num_tasks) -> absl::StatusOr<std::unique_ptr<Party>> {
    const int per_task = num_ranks / num_tasks;
    ASSIGN_OR_RETURN(
        auto devices,
        make_devices == nullptr
            ? DeviceManager::CreateCpu(num_tasks, per_task, environment.random)
            : MakeDevices(make_devices, num_tasks, per_task));
    ASSIGN_OR_RETURN(auto manager,
                     CreateLocalExecutorMgr(environment, devices.get(), rules));
    return std::make_unique<PartyOfOneProcess>(
        rules, make_devices, std::move(devices), std::move(manager));
  };
}

absl::StatusOr<absl::Duration> TimedRun(ExecuteFn execute, Clock* clock,
                                        std::vector<CollectiveArgs> calls) {
  std::vector<absl::Status> statuses(calls.size());
  std::atomic<size_t> left = calls.size();
  absl::Time end = absl::InfinitePast();
  BlockingCounter ended(1);
  const absl::Time start = clock->Now();
  for (size_t i = 0; i < calls.size(); ++i) {
    execute(std::move(calls[i]), [&, i](absl::Status status) {
      statuses[i] = std::move(status);
      if (left.fetch_sub(1) > 1) return;
      end = clock->Now();
      ended.DecrementCount();
    });
  }
  ended.Wait();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return end - start;
}

absl::StatusOr<absl::Duration> RunCalls(Party* party, Clock* clock,
                                        int64_t step_id,
                                        std::vector<CollectiveArgs> calls) {
  const auto executor = party->manager().FindOrCreate(step_id);
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].device = party->devices()[i];
  }
  return TimedRun(
      [&](CollectiveArgs args, StatusCallback done) {
        executor->ExecuteAsync(std::move(args), std::move(done));
      },
      clock, std::move(calls));
}

absl::StatusOr<std::vector<std::unique_ptr<Device>>> WithMessenger(
    const DeviceMaker& make_devices, const DevicesOfTask& task) {
  auto devices = make_devices(task);
  if (!devices.ok()) return devices;
  devices->push_back(std::make_unique<CpuDevice>(DeviceAttributes{
      .name = {.job = task.job, .task = task.task, .type = "CPU"},
      .incarnation = task.incarnation.value_or(0)}));
  return devices;
}

absl::StatusOr<std::unique_ptr<Party>> MakeClusterParty(
    const Environment& environment, std::unique_ptr<ClusterRuntime> runtime,
    const std::string& command) {
  auto party = std::make_unique<ClusterParty>(environment, std::move(runtime));
  const absl::Status status = party->AgreeOnCommand(command);
  if (!status.ok()) return party->Leave(status);
  return party;
}

}  // namespace tutti
