#include <memory>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "framework/base/ended_steps.h"
#include "framework/base/environment_check.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "framework/executor/executor_core.h"
#include "framework/peer/local_peer_access.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

absl::Status CheckOptions(const CollectiveExecutorMgr::Options& options) {
  RETURN_IF_ERROR(Validate(options.environment));
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

absl::Status UsedTwice(int64_t step_id) {
  return absl::FailedPreconditionError(
      absl::StrCat("step ", step_id,
                   " has been cleaned up: a step id cannot be used twice"));
}

absl::Status Destroyed(int64_t step_id) {
  return absl::CancelledError(absl::StrCat(
      "step ", step_id, " has ended: the executor manager was destroyed"));
}

}  // namespace

// Executors by step id. Thread-safe.
class CollectiveExecutorMgr::Steps {
 public:
  explicit Steps(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }

  // Same as CollectiveExecutorMgr::SetObserver().
  void SetObserver(std::shared_ptr<CollectiveObserver> observer)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    observer_.swap(observer);  // The old one ends with no lock held.
  }
  std::shared_ptr<CollectiveExecutor> FindOrCreate(int64_t step_id)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Cleanup(int64_t step_id) ABSL_LOCKS_EXCLUDED(mu_);

  // Refuses new steps: every step requested from now on has ended.
  void BeginEnd() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    is_ending_ = true;
  }

  // Ends all steps, each for the reason that `reason_of` returns.
  void EndSteps(absl::FunctionRef<absl::Status(int64_t step_id)> reason_of)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Step with its executor, made by the first thread that needs it while other
  // threads wait.
  struct Step {
    std::once_flag once;
    std::shared_ptr<CollectiveExecutor> executor;
  };

  // Ends the executions of the step, unless another thread does.
  void EndStep(int64_t step_id, Step& step, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<CollectiveExecutor> MakeEndedExecutor(
      int64_t step_id, const absl::Status& reason) const;
  std::shared_ptr<CollectiveExecutor> MakeExecutor(int64_t step_id) const
      ABSL_LOCKS_EXCLUDED(mu_);
  const std::shared_ptr<CollectiveExecutor>& ExecutorOf(int64_t step_id,
                                                        Step& step) const
      ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<CollectiveObserver> observer() const
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return observer_;
  }

  const Options options_;
  mutable Mutex mu_;
  std::shared_ptr<CollectiveObserver> observer_ ABSL_GUARDED_BY(mu_);
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  absl::flat_hash_map<int64_t, std::shared_ptr<Step>> steps_
      ABSL_GUARDED_BY(mu_);
  // Steps cleaned up here. Not in Endings, which only the transfers of a
  // cluster share: in one process each step has its own.
  EndedSteps ended_steps_ ABSL_GUARDED_BY(mu_);
};

std::shared_ptr<CollectiveExecutor> CollectiveExecutorMgr::Steps::MakeExecutor(
    int64_t step_id) const {
  std::unique_ptr<PeerAccessInterface> peers =
      options_.make_peer_access ? options_.make_peer_access(step_id)
                                : std::make_unique<LocalPeerAccess>();
  const bool has_transport = peers != nullptr;
  if (!has_transport) peers = std::make_unique<LocalPeerAccess>();
  auto executor = MakeCollectiveExecutor({
      .environment = options_.environment,
      .devices = options_.devices,
      .param_resolver = options_.param_resolver,
      .peers = std::move(peers),
      .step_id = step_id,
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

const std::shared_ptr<CollectiveExecutor>&
CollectiveExecutorMgr::Steps::ExecutorOf(int64_t step_id, Step& step) const {
  std::call_once(step.once, [&] { step.executor = MakeExecutor(step_id); });
  return step.executor;
}

std::shared_ptr<CollectiveExecutor> CollectiveExecutorMgr::Steps::FindOrCreate(
    int64_t step_id) {
  std::shared_ptr<Step> step;
  absl::Status refused;
  {
    MutexLock lock(&mu_);
    if (is_ending_) {
      refused = Destroyed(step_id);
    } else if (ended_steps_.Contains(step_id)) {
      refused = UsedTwice(step_id);
    } else {
      std::shared_ptr<Step>& entry = steps_[step_id];
      if (entry == nullptr) entry = std::make_shared<Step>();
      step = entry;
    }
  }
  return step == nullptr ? MakeEndedExecutor(step_id, refused)
                         : ExecutorOf(step_id, *step);
}

std::shared_ptr<CollectiveExecutor>
CollectiveExecutorMgr::Steps::MakeEndedExecutor(
    int64_t step_id, const absl::Status& reason) const {
  auto executor =
      MakeCollectiveExecutor({.environment = options_.environment,
                              .devices = options_.devices,
                              .param_resolver = options_.param_resolver,
                              .peers = std::make_unique<LocalPeerAccess>(),
                              .step_id = step_id});
  executor->StartAbort(reason);
  return executor;
}

void CollectiveExecutorMgr::Steps::Cleanup(int64_t step_id) {
  std::shared_ptr<Step> step;
  {
    MutexLock lock(&mu_);
    const auto found = steps_.find(step_id);
    if (found == steps_.end()) return ended_steps_.Add(step_id);
    step = found->second;
  }
  EndStep(step_id, *step, CleanedUp(step_id));
}

void CollectiveExecutorMgr::Steps::EndStep(int64_t step_id, Step& step,
                                           const absl::Status& reason) {
  const std::shared_ptr<CollectiveExecutor> executor =
      ExecutorOf(step_id, step);
  {
    MutexLock lock(&mu_);
    const auto found = steps_.find(step_id);
    if (found == steps_.end() || found->second.get() != &step) return;
    steps_.erase(found);
    ended_steps_.Add(step_id);
  }
  executor->StartAbort(reason);
}

void CollectiveExecutorMgr::Steps::EndSteps(
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

absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>>
CollectiveExecutorMgr::Create(Options options) {
  RETURN_IF_ERROR(CheckOptions(options));
  return std::unique_ptr<CollectiveExecutorMgr>(
      new CollectiveExecutorMgr(std::make_unique<Steps>(std::move(options))));
}

CollectiveExecutorMgr::CollectiveExecutorMgr(std::unique_ptr<Steps> steps)
    : steps_(std::move(steps)) {}

CollectiveExecutorMgr::~CollectiveExecutorMgr() {
  steps_->BeginEnd();
  steps_->EndSteps(Destroyed);
}

void CollectiveExecutorMgr::SetObserver(
    std::shared_ptr<CollectiveObserver> observer) {
  steps_->SetObserver(std::move(observer));
}

std::shared_ptr<CollectiveExecutor> CollectiveExecutorMgr::FindOrCreate(
    int64_t step_id) {
  return steps_->FindOrCreate(step_id);
}

void CollectiveExecutorMgr::Cleanup(int64_t step_id) {
  steps_->Cleanup(step_id);
}

void CollectiveExecutorMgr::CleanupAll() { steps_->EndSteps(CleanedUp); }

void CollectiveExecutorMgr::EndAll(const absl::Status& reason) {
  steps_->EndSteps([&reason](int64_t) { return reason; });
}

ParamResolverInterface& CollectiveExecutorMgr::param_resolver() {
  return *steps_->options().param_resolver;
}

DeviceResolverInterface& CollectiveExecutorMgr::device_resolver() {
  return *steps_->options().device_resolver;
}

StepSequenceInterface& CollectiveExecutorMgr::step_sequence() {
  return *steps_->options().step_sequence;
}

}  // namespace tutti
