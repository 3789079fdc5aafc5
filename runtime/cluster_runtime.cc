#include "runtime/cluster_runtime.h"

#include <memory>
#include <set>
#include <utility>

#include "framework/cpu_device.h"
#include "framework/device_manager.h"
#include "framework/group_directory.h"
#include "remote/collective_remote_access.h"
#include "resolvers/device_resolver_local.h"
#include "resolvers/leadership.h"
#include "resolvers/param_resolver_distributed.h"
#include "resolvers/step_sequence_local.h"

namespace tutti {

class ClusterRuntime::Impl : public ControlService {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}

  absl::Status Start() {
    const uint64_t incarnation = options_.environment.random->Next() | 1;
    std::vector<std::unique_ptr<Device>> devices;
    for (int index = 0; index < options_.devices_per_task; ++index) {
      devices.push_back(std::make_unique<CpuDevice>(DeviceAttributes{
          .name = {options_.cluster.job, 0, options_.cluster.this_task, "CPU",
                   index},
          .incarnation = incarnation}));
    }
    auto manager = DeviceManager::Create(std::move(devices));
    if (!manager.ok()) return manager.status();
    devices_ = *std::move(manager);
    auto transport = options_.make_transport(incarnation);
    if (!transport.ok()) return transport.status();
    transport_ = *std::move(transport);
    groups_ = std::make_shared<GroupDirectory>();
    access_ = CollectiveRemoteAccess::Create(
        {.cluster = options_.cluster,
         .environment = options_.environment,
         .groups = groups_,
         .transport = transport_});
    leadership_ = std::make_shared<Leadership>(options_.cluster.num_tasks());
    resolver_ = ParamResolverDistributed::Create(
        {.cluster = options_.cluster,
         .environment = options_.environment,
         .channel = &transport_->control(),
         .directory = groups_.get(),
         .leadership = leadership_});
    auto mgr = CollectiveExecutorMgr::Create(
        {.environment = options_.environment,
         .devices = devices_.get(),
         .param_resolver = resolver_,
         .device_resolver = std::make_shared<DeviceResolverLocal>(devices_.get()),
         .step_sequence =
             std::make_shared<StepSequenceLocal>(options_.environment.random),
         .make_peer_access =
             [access = access_](int64_t step) { return access->ForStep(step); }});
    if (!mgr.ok()) return mgr.status();
    manager_ = *std::move(mgr);
    return transport_->Start(this, access_.get());
  }

  void Handle(const ControlCaller& caller, const proto::ControlRequest& request,
              std::shared_ptr<Cancellation> withdrawn,
              ControlDone done) override {
    proto::ControlReply reply;
    switch (request.kind_case()) {
      case proto::ControlRequest::kHello:
        reply.mutable_hello();
        break;
      case proto::ControlRequest::kCompleteParams:
        return resolver_->leader().CompleteParams(
            caller, request.complete_params(), std::move(withdrawn),
            std::move(done));
      case proto::ControlRequest::kDescribeWaiting:
        reply = resolver_->leader().DescribeWaiting(request.describe_waiting());
        break;
      case proto::ControlRequest::kCancelExecution: {
        const auto& key = request.cancel_execution().key();
        const auto& reason = request.cancel_execution().reason();
        access_->CancelFromPeer(
            caller,
            {key.generation(), key.step(), key.group(), key.instance(),
             key.execution()},
            absl::Status(static_cast<absl::StatusCode>(reason.code()),
                         reason.message())).IgnoreError();
        reply.mutable_done();
        break;
      }
      default:
        return std::move(done)(absl::UnimplementedError("not yet"));
    }
    std::move(done)(std::move(reply));
  }

  const Options options_;
  std::unique_ptr<DeviceManager> devices_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<GroupDirectory> groups_;
  std::shared_ptr<CollectiveRemoteAccess> access_;
  std::shared_ptr<Leadership> leadership_;
  std::shared_ptr<ParamResolverDistributed> resolver_;
  std::unique_ptr<CollectiveExecutorMgr> manager_;
};

absl::StatusOr<std::unique_ptr<ClusterRuntime>> ClusterRuntime::Create(
    Options options) {
  auto impl = std::make_shared<Impl>(std::move(options));
  const absl::Status status = impl->Start();
  if (!status.ok()) return status;
  return std::unique_ptr<ClusterRuntime>(new ClusterRuntime(std::move(impl)));
}

ClusterRuntime::ClusterRuntime(std::shared_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

ClusterRuntime::~ClusterRuntime() {
  impl_->manager_->CleanupAll();
  impl_->transport_->Shutdown();
}

void ClusterRuntime::Join(absl::Time deadline,
                          std::function<void(const std::vector<int>&)>,
                          StatusCallback done) {
  // Every task in turn.
  struct Round : std::enable_shared_from_this<Round> {
    Impl* impl; absl::Time deadline; StatusCallback done; int next = 0;
    void Go() {
      if (next == impl->options_.cluster.this_task) ++next;
      if (next >= impl->options_.cluster.num_tasks()) return std::move(done)(absl::OkStatus());
      proto::ControlRequest request;
      request.mutable_hello();
      impl->transport_->control().Call(next++, request, {.deadline = deadline, .wait_until_reachable = true},
        [self = shared_from_this()](ControlAnswer answer) {
          if (!answer.ok()) return std::move(self->done)(answer.status());
          self->Go();
        });
    }
  };
  auto round = std::make_shared<Round>();
  round->impl = impl_.get(); round->deadline = deadline; round->done = std::move(done);
  round->Go();
}

void ClusterRuntime::Leave(absl::Time, StatusCallback done) {
  std::move(done)(absl::OkStatus());
}

const ClusterSpec& ClusterRuntime::cluster() const {
  return impl_->options_.cluster;
}
const std::vector<Device*>& ClusterRuntime::devices() const {
  return impl_->devices_->devices();
}
CollectiveExecutorMgr& ClusterRuntime::manager() { return *impl_->manager_; }

}  // namespace tutti
