#include "tests/doubles/local_job.h"

#include <memory>
#include <utility>
#include <vector>

#include "resolvers/local/device_resolver_local.h"
#include "resolvers/local/step_sequence_local.h"

namespace tutti {

std::vector<float> LocalJob::Call::result() const {
  const auto* const begin = reinterpret_cast<const float*>(output.data());
  return {begin, begin + output.size_bytes() / sizeof(float)};
}

StatusCallback LocalJob::Call::Done() {
  return [this](absl::Status ended) {
    status = std::move(ended);
    ++num_done;
  };
}

LocalJob::LocalJob(Options options)
    : environment_(options.seed),
      devices_(*DeviceManager::CreateCpu(options.num_tasks,
                                         options.devices_per_task,
                                         environment_.get().random)),
      resolver_(ParamResolverLocal::Create(options.resolver)),
      manager_(*CollectiveExecutorMgr::Create({
          .environment = environment_.get(),
          .devices = devices_.get(),
          .param_resolver = resolver_,
          .device_resolver =
              std::make_shared<DeviceResolverLocal>(devices_.get()),
          .step_sequence =
              std::make_shared<StepSequenceLocal>(environment_.get().random),
          .make_peer_access = std::move(options.make_peer_access),
          .past_caches_from_bytes = options.past_caches_from_bytes,
      })) {}

CollectiveRequest LocalJob::AllReduceRequest(int64_t num_elements,
                                             std::string implementation) const {
  CollectiveRequest request;
  request.group_key = 1;
  request.group_size = static_cast<int>(devices().size());
  request.instance_key = 1;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(num_elements);
  request.impl_details.implementation = std::move(implementation);
  return request;
}

CollectiveArgs LocalJob::Args(int device, const CollectiveRequest& request,
                              Call& call) const {
  call.input.assign(static_cast<size_t>(request.shape.num_elements()),
                    static_cast<float>(device + 1));
  return {
      .device = devices()[static_cast<size_t>(device)],
      .request = std::make_shared<const CollectiveRequest>(request),
      .input = *Tensor::Wrap(DType::kFloat32, request.shape, call.input.data()),
      .output = &call.output};
}

LocalJob::Call& LocalJob::Start(int device, const CollectiveRequest& request,
                                const Change& change) {
  Call& call = *calls_.emplace_back(std::make_unique<Call>());
  CollectiveArgs args = Args(device, request, call);
  const std::shared_ptr<CollectiveExecutor> executor =
      manager_->FindOrCreate(step_id_);
  if (change) change(args);
  executor->ExecuteAsync(std::move(args), call.Done());
  return call;
}

LocalJob::Call& LocalJob::Prepare(int device, const CollectiveRequest& request,
                                  const Change& change) {
  Call& call = *calls_.emplace_back(std::make_unique<Call>());
  CollectiveArgs args = Args(device, request, call);
  const std::shared_ptr<CollectiveExecutor> executor =
      manager_->FindOrCreate(step_id_);
  if (change) change(args);
  executor->Prepare(std::move(args), [&call](auto prepared) {
    if (prepared.ok()) call.prepared = *prepared;
    call.Done()(prepared.status());
  });
  return call;
}

std::vector<LocalJob::Call*> LocalJob::OnAll(Begin begin,
                                             const CollectiveRequest& request,
                                             const Change& change) {
  std::vector<Call*> calls;
  for (size_t device = 0; device < devices().size(); ++device) {
    calls.push_back(&(this->*begin)(static_cast<int>(device), request, change));
  }
  return calls;
}

std::vector<LocalJob::Call*> LocalJob::StartAll(
    const CollectiveRequest& request, const Change& change) {
  return OnAll(&LocalJob::Start, request, change);
}

std::vector<LocalJob::Call*> LocalJob::RunAll(const CollectiveRequest& request,
                                              const Change& change) {
  const std::vector<Call*> calls = StartAll(request, change);
  environment_.RunAll();
  return calls;
}

std::vector<LocalJob::Call*> LocalJob::PrepareAll(
    const CollectiveRequest& request, const Change& change) {
  const std::vector<Call*> calls = OnAll(&LocalJob::Prepare, request, change);
  environment_.RunAll();
  return calls;
}

}  // namespace tutti
