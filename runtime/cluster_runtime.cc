#include "tutti/cluster_runtime.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/environment_check.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "framework/collective/collective_delegate.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "named_tensors/coordinator_server.h"
#include "named_tensors/coordinator_table.h"
#include "named_tensors/rank_coordinator.h"
#include "remote/collective_remote_access.h"
#include "remote/transport.h"
#include "resolvers/membership/cluster_control.h"
#include "resolvers/membership/task_health.h"
#include "resolvers/messages/control_codec.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

// Step and group in which the named tensors of all tasks run. Those of another
// coordinator are smaller by its key.
constexpr int64_t kCoordinatorStep = std::numeric_limits<int64_t>::max();
constexpr GroupKey kCoordinatorGroup = std::numeric_limits<GroupKey>::max();

absl::Status CheckSettings(const CoordinatorSettings& settings) {
  if (settings.fusion_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("fusion_bytes is ", settings.fusion_bytes,
                     "; wanted 0, for none, or more"));
  }
  for (const auto& [name, duration] :
       {std::pair("stall_report_after", settings.stall_report_after),
        std::pair("stall_deadline", settings.stall_deadline)}) {
    if (duration >= absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", absl::FormatDuration(duration),
                     ", which is before anybody waits"));
  }
  return absl::OkStatus();
}

// Divisor of the bounds that the coordinator of all tasks has, for others: some
// dozens of them fit beside it.
constexpr int kShare = 16;

absl::Status CheckOptions(const ClusterRuntime::Options& options) {
  RETURN_IF_ERROR(Validate(options.environment));
  if (options.make_transport == nullptr) {
    return absl::InvalidArgumentError("nothing is given to make a transport");
  }
  RETURN_IF_ERROR(CheckSettings(options.coordinator));
  if (options.rules != nullptr) {
    RETURN_IF_ERROR(CheckRules(CollectiveRegistry::Global(), *options.rules));
  }
  return Validate(options.cluster);
}

absl::StatusOr<std::vector<std::unique_ptr<Device>>> MakeCpuDevices(
    const ClusterSpec& cluster, int num_devices, uint64_t incarnation) {
  if (num_devices < 1 || num_devices > kMaxDevicesOfTask) {
    return absl::InvalidArgumentError(
        absl::StrCat("a task has 1 to ", kMaxDevicesOfTask,
                     " devices; asked for were ", num_devices));
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (int index = 0; index < num_devices; ++index) {
    devices.push_back(std::make_unique<CpuDevice>(DeviceAttributes{
        .name = {cluster.job, 0, cluster.this_task, "CPU", index},
        .incarnation = incarnation}));
  }
  return devices;
}

// Checks the attributes by which other tasks will know this process's devices.
absl::Status CheckDevices(const ClusterSpec& cluster, uint64_t incarnation,
                          const std::vector<std::unique_ptr<Device>>& devices) {
  if (devices.empty() || devices.size() > kMaxDevicesOfTask) {
    return absl::InvalidArgumentError(
        absl::StrCat("a task has 1 to ", kMaxDevicesOfTask,
                     " devices; made were ", devices.size()));
  }
  for (const auto& device : devices) {
    if (device == nullptr) {
      return absl::InvalidArgumentError("a device that was made is null");
    }
    const DeviceAttributes& found = device->attributes();
    DeviceName wanted = found.name;
    wanted.job = cluster.job;
    wanted.replica = 0;
    wanted.task = cluster.this_task;
    if (found.name != wanted) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the device ", device->full_name(),
          " is not one of this task's, which is ", wanted.TaskName()));
    }
    if (found.incarnation != incarnation) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the device ", device->full_name(), " is of incarnation ",
          found.incarnation, ", its process of ", incarnation));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceManager>> MakeDevices(
    const ClusterRuntime::Options& options, uint64_t incarnation) {
  ASSIGN_OR_RETURN(auto devices,
                   options.make_devices != nullptr
                       ? options.make_devices(incarnation)
                       : MakeCpuDevices(options.cluster,
                                        options.devices_per_task, incarnation));
  RETURN_IF_ERROR(CheckDevices(options.cluster, incarnation, devices));
  return DeviceManager::Create(std::move(devices));
}

// Shares ownership of the transport: calls that outlive the runtime find a
// transport that has shut down.
std::shared_ptr<ControlChannel> ControlOf(
    const std::shared_ptr<Transport>& transport) {
  return {transport, &transport->control()};
}

}  // namespace

// Runs `done` with the first error once all of several calls have ended.
class FirstError {
 public:
  FirstError(int num_calls, StatusCallback done)
      : num_left_(num_calls), done_(std::move(done)) {}

  void Add(const absl::Status& status) {
    StatusCallback done;
    absl::Status first;
    {
      MutexLock lock(&mu_);
      first_.Update(status);
      if (--num_left_ > 0) return;
      done = std::move(done_);
      first = first_;
    }
    std::move(done)(std::move(first));
  }

 private:
  Mutex mu_;
  int num_left_ ABSL_GUARDED_BY(mu_);
  absl::Status first_ ABSL_GUARDED_BY(mu_);
  StatusCallback done_ ABSL_GUARDED_BY(mu_);
};

// Parts of the runtime, in the order in which they are made. Calls of other
// tasks arrive from Start() until the transport shuts down.
class ClusterRuntime::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}

  ~Impl() {
    const absl::Status reason = absl::CancelledError(
        absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                     ": the runtime was destroyed"));
    coordinators_->End(reason);
    if (manager_ != nullptr) manager_->EndAll(reason);
    if (control_ != nullptr) control_->End(reason);
    if (transport_ != nullptr) transport_->Shutdown();
  }

  absl::Status Start() {
    RETURN_IF_ERROR(CheckOptions(options_));
    const uint64_t incarnation = options_.environment.random->Next() | 1;
    ASSIGN_OR_RETURN(devices_, MakeDevices(options_, incarnation));
    ASSIGN_OR_RETURN(auto transport, options_.make_transport(incarnation));
    if (transport == nullptr) {
      return absl::InvalidArgumentError("the transport that was made is null");
    }
    transport_ = std::move(transport);
    access_ = CollectiveRemoteAccess::Create(
        {.cluster = options_.cluster,
         .environment = options_.environment,
         .groups = groups_,
         .transport = transport_,
         .max_waiting_requests = options_.max_waiting_requests,
         .max_offered_bytes = options_.max_offered_bytes});
    // Before MakeControl(): the parts are linked later, but before any call.
    ASSIGN_OR_RETURN(coordinator_, CreateCoordinator(/*key=*/0, /*tasks=*/{}));
    control_ = MakeControl(incarnation);
    parts_for_names_->control = control_;
    parts_for_names_->coordinators = coordinators_;
    RETURN_IF_ERROR(MakeManager());
    return transport_->Start(control_.get(), access_.get());
  }

  void CleanupStep(int64_t step_id, StatusCallback done) {
    const int num_tasks = options_.cluster.num_tasks();
    const auto reported =
        std::make_shared<FirstError>(num_tasks, std::move(done));
    EndStep(step_id);
    reported->Add(absl::OkStatus());
    const absl::Time deadline =
        options_.environment.clock->Now() + DefaultTime("end");
    for (int task = 0; task < num_tasks; ++task) {
      if (task == options_.cluster.this_task) continue;
      proto::ControlRequest request;
      request.mutable_cleanup_step()->set_step(step_id);
      transport_->control().Call(task, std::move(request),
                                 {.deadline = deadline},
                                 [reported](const ControlAnswer& answer) {
                                   reported->Add(answer.status());
                                 });
    }
  }

  const Options& options() const { return options_; }
  SelectionPolicy policy() const {
    return {.rules = options_.rules,
            .delegate = DelegateName(),
            .model = transport_->cost_model()};
  }
  const DeviceManager& devices() const { return *devices_; }
  CollectiveExecutorMgr& manager() { return *manager_; }
  ClusterControl& control() { return *control_; }
  Coordinator& coordinator() { return *coordinator_; }

  absl::StatusOr<std::shared_ptr<RankCoordinator>> CreateCoordinator(
      int64_t key, const std::vector<int>& tasks) {
    ASSIGN_OR_RETURN(auto server, coordinators_->Create(key, tasks));
    auto coordinator = RankCoordinator::Create(
        {.cluster = options_.cluster,
         .tasks = tasks,
         .key = key,
         .environment = options_.environment,
         .device = std::shared_ptr<Device>(devices_, devices_->devices()[0]),
         .channel = ControlOf(transport_),
         .server = std::move(server),
         .executor = [this,
                      step = kCoordinatorStep -
                             key] { return manager_->FindOrCreate(step); },
         .group_key = kCoordinatorGroup - key,
         .present_process =
             [parts = parts_for_names_](int task) {
               return PresentProcess(*parts, task);
             },
         .begun = [parts = parts_for_names_] { OnNamesBegun(*parts); }});
    coordinators_->Set(key, coordinator);
    OnNamesBegun(*parts_for_names_);  // Other ranks may have begun before.
    return coordinator;
  }

 private:
  // Parts called when the first tensor is named.
  struct PartsForNames {
    std::weak_ptr<ClusterControl> control;
    std::weak_ptr<CoordinatorTable> coordinators;
  };

  std::shared_ptr<CoordinatorServer> MakeServer(int64_t key,
                                                const std::vector<int>& tasks) {
    return CoordinatorServer::Create(
        {.cluster = options_.cluster,
         .tasks = tasks,
         .clock = options_.environment.clock,
         .settings = options_.coordinator,
         .max_entries = options_.max_entries / (key == 0 ? 1 : kShare),
         .max_unsettled =
             CoordinatorServer::kMaxUnsettled / (key == 0 ? 1 : kShare),
         .begun = [parts = parts_for_names_] { OnNamesBegun(*parts); },
         .give_up =
             [parts = parts_for_names_, key](const absl::Status& reason) {
               const auto coordinators = parts->coordinators.lock();
               if (coordinators == nullptr) return;
               for (const auto& coordinator : coordinators->Living(key)) {
                 coordinator->GiveUpRuns(reason);
               }
             }});
  }

  static uint64_t PresentProcess(const PartsForNames& parts, int task) {
    const auto control = parts.control.lock();
    if (control == nullptr) return 0;
    const uint64_t incarnation = control->health().incarnation(task);
    const absl::Status loss = control->health().LossOf({task, incarnation});
    return loss.ok() ? incarnation : 0;
  }

  static void OnNamesBegun(const PartsForNames& parts) {
    const auto control = parts.control.lock();
    const auto coordinators = parts.coordinators.lock();
    if (control == nullptr || coordinators == nullptr) return;
    control->health().Update();
    for (const auto& coordinator : coordinators->Living()) {
      for (const ControlCaller& process : coordinator->WaitsFor()) {
        // The health watch does not report a process that was lost earlier.
        const absl::Status loss = control->health().LossOf(process);
        if (!loss.ok()) coordinator->OnTaskLost(process, loss);
      }
    }
  }

  static std::vector<int> WaitsFor(CoordinatorTable& coordinators) {
    std::vector<int> tasks;
    for (const auto& coordinator : coordinators.Living()) {
      for (const ControlCaller& process : coordinator->WaitsFor()) {
        tasks.push_back(process.task);
      }
    }
    return tasks;
  }

  std::shared_ptr<ClusterControl> MakeControl(uint64_t incarnation) {
    return ClusterControl::Create(
        {.cluster = options_.cluster,
         .environment = options_.environment,
         .channel = ControlOf(transport_),
         .directory = groups_,
         .devices = devices_,
         .incarnation = incarnation,
         .health = options_.health,
         .policy = policy(),
         .max_entries = options_.max_entries,
         .cancel_execution =
             [access = access_](const ControlCaller& caller,
                                const ExecKey& execution,
                                const absl::Status& reason) {
               return access->CancelFromPeer(caller, execution, reason);
             },
         .cleanup_step = [this](int64_t step_id) { EndStep(step_id); },
         .named_tensors = coordinators_,
         .also_watched =
             [coordinators = std::weak_ptr<CoordinatorTable>(coordinators_)] {
               const auto alive = coordinators.lock();
               return alive == nullptr ? std::vector<int>() : WaitsFor(*alive);
             },
         .task_lost =
             [transport = std::weak_ptr<Transport>(transport_),
              coordinators = std::weak_ptr<CoordinatorTable>(coordinators_)](
                 const ControlCaller& process, const absl::Status& reason) {
               if (const auto named = coordinators.lock()) {
                 for (const auto& coordinator : named->Living()) {
                   coordinator->OnTaskLost(process, reason);
                 }
               }
               const auto alive = transport.lock();
               if (alive != nullptr) alive->Drop(process, reason);
             },
         .task_silent = IfAlive(std::weak_ptr<Transport>(transport_),
                                &Transport::OnSilent),
         .group_changed = [access = access_](
                              GroupKey key,
                              uint64_t) { access->OnGroupChange(key); }});
  }

  std::string DelegateName() const {
    const CollectiveDelegate* const delegate = transport_->delegate();
    return delegate == nullptr ? "" : std::string(delegate->name());
  }

  absl::Status MakeManager() {
    ASSIGN_OR_RETURN(manager_,
                     CollectiveExecutorMgr::Create(
                         {.environment = options_.environment,
                          .devices = devices_.get(),
                          .param_resolver = control_->param_resolver(),
                          .device_resolver = control_->device_resolver(),
                          .step_sequence = control_->step_sequence(),
                          .make_peer_access =
                              [access = access_](int64_t step_id) {
                                return access->ForStep(step_id);
                              },
                          .past_caches_from_bytes =
                              PastCachesFromBytes(options_.rules.get())}));
    return absl::OkStatus();
  }

  // The transfers first, so that what other tasks ask gets this reason.
  void EndStep(int64_t step_id) {
    access_->EndStep(step_id);
    control_->param_resolver()->EndStep(step_id);
    manager_->Cleanup(step_id);
  }

  const Options options_;
  const std::shared_ptr<GroupDirectory> groups_ =
      std::make_shared<GroupDirectory>();
  std::shared_ptr<DeviceManager> devices_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<CollectiveRemoteAccess> access_;
  const std::shared_ptr<PartsForNames> parts_for_names_ =
      std::make_shared<PartsForNames>();
  const std::shared_ptr<CoordinatorTable> coordinators_ =
      std::make_shared<CoordinatorTable>(
          options_.cluster, [this](int64_t key, const std::vector<int>& tasks) {
            return MakeServer(key, tasks);
          });
  std::shared_ptr<RankCoordinator> coordinator_;
  std::shared_ptr<ClusterControl> control_;
  std::unique_ptr<CollectiveExecutorMgr> manager_;
};

absl::StatusOr<std::unique_ptr<ClusterRuntime>> ClusterRuntime::Create(
    Options options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<ClusterRuntime>(new ClusterRuntime(std::move(impl)));
}

ClusterRuntime::ClusterRuntime(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

ClusterRuntime::~ClusterRuntime() = default;

void ClusterRuntime::Join(
    absl::Time deadline,
    std::function<void(const std::vector<int>& missing)> progress,
    StatusCallback done) {
  impl_->control().Join(deadline, std::move(progress), std::move(done));
}

void ClusterRuntime::Leave(absl::Time deadline, StatusCallback done) {
  impl_->control().Leave(deadline, std::move(done));
}

const ClusterSpec& ClusterRuntime::cluster() const {
  return impl_->options().cluster;
}

SelectionPolicy ClusterRuntime::policy() const { return impl_->policy(); }

const std::vector<Device*>& ClusterRuntime::devices() const {
  return impl_->devices().devices();
}

CollectiveExecutorMgr& ClusterRuntime::manager() { return impl_->manager(); }

Coordinator& ClusterRuntime::coordinator() { return impl_->coordinator(); }

absl::StatusOr<std::shared_ptr<Coordinator>> ClusterRuntime::CreateCoordinator(
    int64_t key, const std::vector<int>& tasks) {
  if (key < 1) {  // Key 0 is that of the coordinator of all tasks.
    return absl::InvalidArgumentError(
        absl::StrCat("the key of a coordinator is ", key, "; wanted 1 to ",
                     kMaxCoordinatorKey));
  }
  return impl_->CreateCoordinator(key, tasks);
}

void ClusterRuntime::CleanupStep(int64_t step_id, StatusCallback done) {
  impl_->CleanupStep(step_id, std::move(done));
}

void ClusterRuntime::ReformGroup(GroupKey group_key, absl::Status reason) {
  impl_->manager().param_resolver().EndGroup(group_key, std::move(reason));
}

void ClusterRuntime::CheckHealth(absl::string_view task, absl::Duration limit,
                                 StatusCallback done) {
  impl_->control().health().CheckHealth(task, limit, std::move(done));
}

}  // namespace tutti
