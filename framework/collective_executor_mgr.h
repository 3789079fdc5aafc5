#ifndef TUTTI_FRAMEWORK_COLLECTIVE_EXECUTOR_MGR_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_EXECUTOR_MGR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective_executor.h"
#include "framework/collective_observer.h"
#include "framework/device_manager.h"
#include "framework/device_resolver.h"
#include "framework/environment.h"
#include "framework/param_resolver.h"
#include "framework/peer_access.h"
#include "framework/step_sequence.h"

namespace tutti {

// Step id -> executor. Thread-safe.
class CollectiveExecutorMgrInterface {
 public:
  virtual ~CollectiveExecutorMgrInterface() = default;

  // The executor of a step, made on first use. Whoever holds it may keep it,
  // but after the step's clean-up all its calls end with CANCELLED. The step
  // itself is then unknown: to ask for it again makes a new executor, which
  // knows nothing of the old one, so finish asking before you clean up.
  virtual std::shared_ptr<CollectiveExecutor> FindOrCreate(int64_t step_id) = 0;

  // Ends what the step still runs and forgets it; idempotent. Waits for who is
  // just making its executor.
  virtual void Cleanup(int64_t step_id) = 0;
  virtual void CleanupAll() = 0;  // Of all steps.

  virtual ParamResolverInterface& param_resolver() = 0;
  virtual DeviceResolverInterface& device_resolver() = 0;
  virtual StepSequenceInterface& step_sequence() = 0;
};

// The manager for any transport and resolver. Destroying it aborts what still
// runs, and all calls of who asks for a step meanwhile; those calls end on
// their own and keep alive what they need, but for the environment and the
// devices.
class CollectiveExecutorMgr : public CollectiveExecutorMgrInterface {
 public:
  struct Options {
    Environment environment;
    const DeviceManager* devices = nullptr;  // Outlives all executors.
    std::shared_ptr<ParamResolverInterface> param_resolver;
    std::shared_ptr<DeviceResolverInterface> device_resolver;
    std::shared_ptr<StepSequenceInterface> step_sequence;

    // The transport of a step; runs once for each executor, with no lock held.
    // If it returns null, all calls of the step end with INTERNAL. No function:
    // members in this process alone.
    std::function<std::unique_ptr<PeerAccessInterface>(int64_t step_id)>
        make_peer_access;

    // From how many bytes on, of the inputs and outputs of all members of an
    // execution within a process, what is written goes past the caches, in
    // which it would not stay; CollectiveArgs::store_hint overrides it. `tutti
    // tune` measures it (SelectionRules). None: kPastCachesFromBytes.
    std::optional<int64_t> past_caches_from_bytes;
  };

  // Errors: INVALID_ARGUMENT for a missing option; that of a collective's
  // registration (CollectiveRegistry::status).
  static absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> Create(
      Options options);
  ~CollectiveExecutorMgr() override;

  // Shows it what the collectives yield of all steps whose executor is made
  // from now on; null, as at first: nobody. Those executors hold it.
  void SetObserver(std::shared_ptr<CollectiveObserver> observer);

  std::shared_ptr<CollectiveExecutor> FindOrCreate(int64_t step_id) override;
  void Cleanup(int64_t step_id) override;
  void CleanupAll() override;

  // As CleanupAll(); what still runs ends with `reason`.
  void EndAll(const absl::Status& reason);
  ParamResolverInterface& param_resolver() override;
  DeviceResolverInterface& device_resolver() override;
  StepSequenceInterface& step_sequence() override;

 private:
  class Steps;

  explicit CollectiveExecutorMgr(std::unique_ptr<Steps> steps);

  const std::unique_ptr<Steps> steps_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_EXECUTOR_MGR_H_
