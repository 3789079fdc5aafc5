#ifndef TUTTI_EXECUTOR_H_
#define TUTTI_EXECUTOR_H_

// Executors: CollectiveExecutor runs the collectives of one step,
// CollectiveExecutorMgr makes and cleans up the executors of all steps.
// PreparedCollective is a collective that runs again and again on the same
// buffers. CollectiveObserver sees what members get. Thread-safe; each call
// ends with one status, exactly once.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {

// One member's part in a collective that runs again and again on the same
// buffers: params, implementation and schedule are chosen, the buffers are
// checked. Made by CollectiveExecutor::Prepare().
//
// A start is the member's next execution of the instance, as if it had called
// CollectiveExecutor::ExecuteAsync() with the same arguments: with the same
// errors and the same bits; abort, the end of the group, and what fails on
// another member end it alike. Members may start what others call. It only
// costs less: nothing about the instance is looked up, and where all members
// are in this process it allocates nothing once it has run a few times, in
// passes over memory (the Local... implementations) of up to 16 members, 8 of
// an all_to_all. A schedule meets its peers by keys, as calls do. What
// allocates all the same is in docs/architecture.md.
//
// It belongs to the executor that prepared it, and keeps it. A runtime that has
// an executor for each step takes one more, that lives as long as the buffers
// do: a step of its own, whose abort is that of all that is prepared there.
// After the abort, starts end with its status. After the end of the group's
// generation, they join the next one as calls do, and cost as much: prepare
// again. Where the group has several tasks a step may not go on with another
// generation, and they fail with FAILED_PRECONDITION: prepare again in an
// executor of another step. A start whose segments are packed
// (ImplementationTraits::takes_segments) is a call, too.
//
// Thread-safe. May be destroyed while it runs: that start goes on, and `done`
// runs. The device outlives it and every start.
class PreparedCollective {
 public:
  virtual ~PreparedCollective() = default;
  PreparedCollective(const PreparedCollective&) = delete;
  PreparedCollective& operator=(const PreparedCollective&) = delete;

  // Runs it once more. `done` is as that of ExecuteAsync(); it may start it
  // again. Errors: also FAILED_PRECONDITION, inside this call, if it runs
  // already; that one goes on.
  virtual void Start(StatusCallback done) = 0;

  // Both cover everything from the start to `done`.
  struct Limits {
    absl::Time deadline = absl::InfiniteFuture();
    std::shared_ptr<Cancellation> cancellation;
  };

  // The same. What has a limit costs as much as a call.
  virtual void Start(Limits limits, StatusCallback done) = 0;

  // What was settled; params().instance->impl_details says how it runs.
  virtual const CollectiveParams& params() const = 0;

  // Where the results are; unset where the member has none, or segments.
  // Prepare() allocates one that was not given, or, if it may be shared, the
  // first start: read it once that has ended. It mostly stays the same at each
  // start.
  virtual const Tensor& output() const = 0;

 protected:
  PreparedCollective() = default;
};

class ExecutorCore;

// One member's part in one execution of a collective.
struct CollectiveArgs {
  // The member: one of the manager's devices, which outlives `done`.
  Device* device = nullptr;

  // What it takes part in. Passing the same object each time is fastest.
  std::shared_ptr<const CollectiveRequest> request;

  // Unset where the member has none (broadcast and scatter but for the root).
  Tensor input;

  // Where the result goes; docs/architecture.md has the shapes. It may be the
  // input's memory (in place), and is apart from what other members give. An
  // unset tensor is replaced by one that the device allocates. Valid until
  // `done`. Null where the member has no output.
  Tensor* output = nullptr;

  // The output, if it is not set, may be a tensor that other members get too:
  // nobody writes to what it shares. So there is one buffer, written once,
  // where the outputs of all members are equal (all_reduce, all_gather,
  // broadcast), all of them allow it and set none, and the implementation can
  // do it (ImplementationTraits::shares_output); else each gets its own. Then
  // `output` is set before `done`, not inside the call.
  bool allow_shared_output = false;

  // In the place of both, for all_reduce: tensors that are reduced together, as
  // if they lay one after the other. The request's shape has as many elements
  // as they have in all. `allow_shared_output` means nothing then.
  std::shared_ptr<const SegmentList> segments;

  // Overrides how results are written within a process. It is the caches of all
  // members that are meant: of those that give one, the lowest rank decides.
  StoreHint store_hint = StoreHint::kBySize;

  // Both cover everything from the call to `done`.
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;

  // Which execution of the instance in this step, as an iteration of a loop;
  // less than 2^63. Default: the member's n-th call is the n-th execution. A
  // member gives it always or never.
  std::optional<uint64_t> execution;
};

// From how many bytes of inputs and outputs in all results are written past the
// caches, where nobody says: as measured with 32 MiB of last-level cache.
inline constexpr int64_t kPastCachesFromBytes = int64_t{16} << 20;

// Runs the collectives of one step for the devices of this process.
//
// Thread-safe. `done` runs exactly once, on the calling thread, on that of
// another member or of whoever cancels, on the work queue's, the clock's or the
// transport's, with no lock held; it must not block. Until then input and
// output belong to the collective; after an error the output's content is
// undefined.
//
// An execution fails as a whole, and nothing else fails with it: its first
// error is what all its members report whose part had not ended.
class CollectiveExecutor
    : public std::enable_shared_from_this<CollectiveExecutor> {
 public:
  // For managers: the library alone makes cores.
  explicit CollectiveExecutor(std::unique_ptr<ExecutorCore> core);
  ~CollectiveExecutor();
  CollectiveExecutor(const CollectiveExecutor&) = delete;
  CollectiveExecutor& operator=(const CollectiveExecutor&) = delete;

  // Errors, as far as possible on all members: INVALID_ARGUMENT for what no
  // member may ask, and where members ask for different things;
  // DEADLINE_EXCEEDED saying who had not arrived, in which phase, after how
  // long; the reason of a cancellation; the status of an abort; CANCELLED after
  // the step's clean-up. Of this call alone: ALREADY_EXISTS for an execution
  // that the member was in, INVALID_ARGUMENT for no device or request, another
  // process's device and a number that is too large.
  void ExecuteAsync(CollectiveArgs args, StatusCallback done);

  using PrepareCallback = absl::AnyInvocable<
      void(absl::StatusOr<std::shared_ptr<PreparedCollective>>) &&>;

  // Does once, for a collective that runs again and again with the same
  // arguments, all that comes before the run: what is given to `done` only has
  // to be started. Nothing of the buffers is read or written, and no execution
  // is counted. `deadline` and `cancellation` are those of the preparation; an
  // output that is not set is allocated.
  //
  // Waits for the members until they have called or prepared the instance once.
  // Errors: as ExecuteAsync, on all members whose preparation had not ended;
  // also INVALID_ARGUMENT for a number of the execution. `done` runs as there.
  void Prepare(CollectiveArgs args, PrepareCallback done);

  // Ends all pending and later calls of this step with `reason`. The first
  // reason stays.
  void StartAbort(absl::Status reason);

  // OK until aborted.
  absl::Status status() const;
  int64_t step_id() const;

  // ---- For implementations ----

  PeerAccessInterface& peers();
  const Environment& environment() const;
  int64_t past_caches_from_bytes() const;

  // Runs `ready` once all members of this process have launched what the
  // context's instance depends on (the n-th execution waits for the n-th of
  // each), with OK, or with the execution's error.
  // Called before Run(), for every implementation.
  void WaitForDependencies(const CollectiveContext& context,
                           StatusCallback ready);

  // The context's execution has begun what must be in order among collectives.
  // Once for each context; what ends without a launch counts as launched.
  void Launched(const CollectiveContext& context);

  // The same for members of one execution, of whom no other call to Launched()
  // is under way: costs as much as for one of them.
  void LaunchedTogether(absl::Span<const CollectiveContext* const> contexts);

  // Ends the execution on all members. The first status stays.
  void FailExecution(Execution& execution, absl::Status status);

  // For the library.
  ExecutorCore& core() { return *core_; }

 private:
  const std::unique_ptr<ExecutorCore> core_;
};

// Sees what the members of this process get from their collectives, whatever
// implementation ran.
class CollectiveObserver {
 public:
  // One member's part in one execution, which has ended with OK. Valid during
  // the call.
  struct Finished {
    Device& device;  // The member.
    const CollectiveRequest& request;
    int64_t step_id = 0;
    uint64_t execution = 0;  // Of the instance in this step.

    // Complete. Unset where the member has none. Nobody writes it until the
    // call returns; whoever wants it later copies it.
    const Tensor& output;

    // Where the outputs of the segments are the output; null: there are none.
    const SegmentList* segments = nullptr;
  };

  virtual ~CollectiveObserver() = default;

  // Runs once for each such part, before its `done` and on the same thread,
  // with no lock held; those of other members may run at once. This one's
  // `done` waits for it, and so do other members whose parts end on the same
  // thread: must not block or throw. Parts that fail, and preparations, are not
  // shown.
  virtual void OnFinished(const Finished& finished) = 0;
};

// Step id -> executor. Thread-safe.
//
// A step id is used once. Ids come from step_sequence(), or from the caller,
// who then sees to it.
class CollectiveExecutorMgrInterface {
 public:
  virtual ~CollectiveExecutorMgrInterface() = default;

  // The executor of a step, made on first use. Whoever holds it may keep it,
  // but after the step's clean-up all its calls end with CANCELLED. Never null:
  // a step id that has been cleaned up gets an executor all of whose calls end
  // with FAILED_PRECONDITION.
  virtual std::shared_ptr<CollectiveExecutor> FindOrCreate(int64_t step_id) = 0;

  // Ends what the step still runs, or would run later; idempotent. Waits for
  // the thread that is just making its executor.
  virtual void Cleanup(int64_t step_id) = 0;
  virtual void CleanupAll() = 0;  // All steps that have an executor.

  virtual ParamResolverInterface& param_resolver() = 0;
  virtual DeviceResolverInterface& device_resolver() = 0;
  virtual StepSequenceInterface& step_sequence() = 0;
};

// The manager for any transport and resolver. It remembers the ids of steps
// that were cleaned up: all of a step sequence, however long, and else the last
// few thousand, in some 400 KiB at the most (EndedSteps). Destroying it aborts
// what still runs, and all calls of who asks for a step meanwhile; those calls
// end on their own and keep alive what they need, but for the environment and
// the devices.
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

#endif  // TUTTI_EXECUTOR_H_
