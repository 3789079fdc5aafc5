#include "framework/collective_executor_mgr.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/local_peer_access.h"
#include "framework/registry.h"

namespace tutti {
namespace {

absl::Status CheckOptions(const CollectiveExecutorMgr::Options& options) {
  const Environment& environment = options.environment;
  if (environment.queue == nullptr || environment.clock == nullptr ||
      environment.random == nullptr) {
    return absl::InvalidArgumentError(
        "the environment lacks a work queue, a clock or a random source");
  }
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

CollectiveExecutorMgr::~CollectiveExecutorMgr() { CleanupAll(); }

std::unique_ptr<PeerAccessInterface> CollectiveExecutorMgr::MakePeerAccess(
    int64_t step_id) const {
  if (options_.make_peer_access) return options_.make_peer_access(step_id);
  return std::make_unique<LocalPeerAccess>();
}

std::shared_ptr<CollectiveExecutor> CollectiveExecutorMgr::FindOrCreate(
    int64_t step_id) {
  MutexLock lock(&mu_);
  std::shared_ptr<CollectiveExecutor>& executor = executors_[step_id];
  if (executor == nullptr) {
    executor = CollectiveExecutor::Create({
        .environment = options_.environment,
        .devices = options_.devices,
        .param_resolver = options_.param_resolver,
        .peers = MakePeerAccess(step_id),
        .step_id = step_id,
    });
  }
  return executor;
}

void CollectiveExecutorMgr::Cleanup(int64_t step_id) {
  std::shared_ptr<CollectiveExecutor> executor;
  {
    MutexLock lock(&mu_);
    const auto found = executors_.find(step_id);
    if (found == executors_.end()) return;
    executor = std::move(found->second);
    executors_.erase(found);
  }
  executor->StartAbort(CleanedUp(step_id));
}

void CollectiveExecutorMgr::CleanupAll() {
  absl::flat_hash_map<int64_t, std::shared_ptr<CollectiveExecutor>> executors;
  {
    MutexLock lock(&mu_);
    executors.swap(executors_);
  }
  for (const auto& [step_id, executor] : executors) {
    executor->StartAbort(CleanedUp(step_id));
  }
}

}  // namespace tutti
