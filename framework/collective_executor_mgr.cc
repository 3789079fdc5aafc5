#include "framework/collective_executor_mgr.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/environment_check.h"
#include "framework/local_peer_access.h"
#include "framework/registry.h"

namespace tutti {
namespace {

absl::Status CheckOptions(const CollectiveExecutorMgr::Options& options) {
  const absl::Status status = Validate(options.environment);
  if (!status.ok()) return status;
  if (options.devices == nullptr) {
    return absl::InvalidArgumentError("no device manager was given");
  }
  if (options.param_resolver == nullptr || options.device_resolver == nullptr ||
      options.step_sequence == nullptr) {
    return absl::InvalidArgumentError(
        "a param resolver, a device resolver or a step sequence is missing");
  }
  return CollectiveRegistry::Global().status();
}

absl::Status CleanedUp(int64_t step_id) {
  return absl::CancelledError(
      absl::StrCat("step ", step_id, " has been cleaned up"));
}

absl::Status Destroyed(int64_t step_id) {
  return absl::CancelledError(absl::StrCat(
      "step ", step_id, " has ended: the executor manager was destroyed"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>>
CollectiveExecutorMgr::Create(Options options) {
  const absl::Status status = CheckOptions(options);
  if (!status.ok()) return status;
  return std::unique_ptr<CollectiveExecutorMgr>(
      new CollectiveExecutorMgr(std::move(options)));
}

CollectiveExecutorMgr::CollectiveExecutorMgr(Options options)
    : options_(std::move(options)) {}

CollectiveExecutorMgr::~CollectiveExecutorMgr() {
  {
    MutexLock lock(&mu_);
    is_ending_ = true;
  }
  EndSteps(Destroyed);
}

void CollectiveExecutorMgr::SetObserver(
    std::shared_ptr<CollectiveObserver> observer) {
  MutexLock lock(&mu_);
  observer_.swap(observer);  // The old one ends with no lock held.
}

std::shared_ptr<CollectiveObserver> CollectiveExecutorMgr::observer() const {
  MutexLock lock(&mu_);
  return observer_;
}

std::shared_ptr<CollectiveExecutor> CollectiveExecutorMgr::MakeExecutor(
    int64_t step_id) const {
  const uint64_t beginning = options_.param_resolver->BeginStep(step_id);
  std::unique_ptr<PeerAccessInterface> peers =
      options_.make_peer_access ? options_.make_peer_access(step_id)
                                : std::make_unique<LocalPeerAccess>();
  const bool has_transport = peers != nullptr;
  if (!has_transport) peers = std::make_unique<LocalPeerAccess>();
  auto executor = CollectiveExecutor::Create({
      .environment = options_.environment,
      .devices = options_.devices,
      .param_resolver = options_.param_resolver,
      .peers = std::move(peers),
      .step_id = step_id,
      .beginning = beginning,
      .observer = observer(),
      .past_caches_from_bytes =
          options_.past_caches_from_bytes.value_or(kPastCachesFromBytes),
  });
  if (!has_transport) {
    executor->StartAbort(absl::InternalError(
        absl::StrCat("make_peer_access gave step ", step_id, " no transport")));
  }
  return executor;
}

const std::shared_ptr<CollectiveExecutor>& CollectiveExecutorMgr::ExecutorOf(
    int64_t step_id, Step& step) const {
  std::call_once(step.once, [&] { step.executor = MakeExecutor(step_id); });
  return step.executor;
}

std::shared_ptr<CollectiveExecutor> CollectiveExecutorMgr::FindOrCreate(
    int64_t step_id) {
  std::shared_ptr<Step> step;
  {
    MutexLock lock(&mu_);
    if (!is_ending_) {
      std::shared_ptr<Step>& entry = steps_[step_id];
      if (entry == nullptr) entry = std::make_shared<Step>();
      step = entry;
    }
  }
  return step == nullptr ? MakeEndedExecutor(step_id)
                         : ExecutorOf(step_id, *step);
}

// Of a step that this process does not begin: it is on its way out.
std::shared_ptr<CollectiveExecutor> CollectiveExecutorMgr::MakeEndedExecutor(
    int64_t step_id) const {
  auto executor =
      CollectiveExecutor::Create({.environment = options_.environment,
                                  .devices = options_.devices,
                                  .param_resolver = options_.param_resolver,
                                  .peers = std::make_unique<LocalPeerAccess>(),
                                  .step_id = step_id});
  executor->StartAbort(Destroyed(step_id));
  return executor;
}

void CollectiveExecutorMgr::Cleanup(int64_t step_id) {
  std::shared_ptr<Step> step;
  {
    MutexLock lock(&mu_);
    const auto found = steps_.find(step_id);
    if (found == steps_.end()) return;
    step = found->second;
  }
  EndStep(step_id, *step, CleanedUp(step_id));
}

void CollectiveExecutorMgr::EndStep(int64_t step_id, Step& step,
                                    const absl::Status& reason) {
  const std::shared_ptr<CollectiveExecutor> executor =
      ExecutorOf(step_id, step);
  {
    MutexLock lock(&mu_);
    const auto found = steps_.find(step_id);
    if (found == steps_.end() || found->second.get() != &step) return;
    steps_.erase(found);
    options_.param_resolver->EndStep(step_id);  // Before it can begin anew.
  }
  executor->StartAbort(reason);
}

void CollectiveExecutorMgr::CleanupAll() { EndSteps(CleanedUp); }

void CollectiveExecutorMgr::EndAll(const absl::Status& reason) {
  EndSteps([&reason](int64_t) { return reason; });
}

void CollectiveExecutorMgr::EndSteps(
    absl::FunctionRef<absl::Status(int64_t step_id)> reason_of) {
  absl::flat_hash_map<int64_t, std::shared_ptr<Step>> steps;
  {
    MutexLock lock(&mu_);
    steps = steps_;
  }
  for (const auto& [step_id, step] : steps) {
    EndStep(step_id, *step, reason_of(step_id));
  }
}

}  // namespace tutti
