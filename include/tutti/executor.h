#ifndef TUTTI_EXECUTOR_H_
#define TUTTI_EXECUTOR_H_

// Executors: CollectiveExecutor runs the collectives of one step;
// CollectiveExecutorMgr makes and cleans up the executors of all steps.
// PreparedCollective runs repeatedly on the same buffers. CollectiveObserver
// sees the results of members. Thread-safe; each call ends with one status,
// exactly once.

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

// Part of a member in a collective that runs repeatedly on the same buffers.
// Params, implementation and schedule are chosen; the buffers are checked. Made
// by CollectiveExecutor::Prepare().
//
// A start is the member's next execution of the instance, as if it had called
// CollectiveExecutor::ExecuteAsync() with the same arguments. Bits and errors
// are the same. An abort, the end of the group, or a failure on another member
// ends both alike. One member may start an execution that another member calls.
//
// A start only costs less than a call, because it looks up nothing about the
// instance. After the first few runs it allocates nothing, on two conditions.
// All members are in this process. The collective is a pass over memory (the
// Local... implementations) of up to 16 members, or 8 for an all_to_all. A
// schedule meets its peers by keys, like a call. docs/architecture.md lists the
// allocations that remain.
//
// A prepared collective belongs to the executor that prepared it, and keeps
// that executor alive. A runtime with one executor per step uses one more step,
// which lives as long as the buffers. An abort of that step ends everything
// prepared there.
//
// After the abort, starts end with its status. After the end of the group's
// generation, starts join the next generation and cost as much as calls:
// prepare again. If the group has several tasks, a step cannot go on with
// another generation. Starts then fail with FAILED_PRECONDITION: prepare again
// in an executor of another step. A start with packed segments
// (ImplementationTraits::takes_segments) also costs as much as a call.
//
// Thread-safe. May be destroyed while it runs: that start continues, and `done`
// runs. The device outlives this object and every start.
class PreparedCollective {
 public:
  virtual ~PreparedCollective() = default;
  PreparedCollective(const PreparedCollective&) = delete;
  PreparedCollective& operator=(const PreparedCollective&) = delete;

  // Runs the collective once more. `done` is as in ExecuteAsync(); it may call
  // Start() again. Errors: as ExecuteAsync(). Also FAILED_PRECONDITION, inside
  // this call, while a start runs; the running start continues.
  virtual void Start(StatusCallback done) = 0;

  // Limits from the start to `done`.
  struct Limits {
    absl::Time deadline = absl::InfiniteFuture();
    std::shared_ptr<Cancellation> cancellation;
  };

  // Starts with limits. Costs as much as a call if there is a limit.
  virtual void Start(Limits limits, StatusCallback done) = 0;

  // Settled params; params().instance->impl_details describes how the
  // collective runs.
  virtual const CollectiveParams& params() const = 0;

  // Place of the results; unset if the member has no output, or has segments.
  // Prepare() allocates an output that was not given. If the output may be
  // shared, the first start allocates it: read this after that start has ended.
  // The output usually stays the same from start to start.
  virtual const Tensor& output() const = 0;

 protected:
  PreparedCollective() = default;
};

class ExecutorCore;

// Arguments of one member's part in one execution of a collective.
struct CollectiveArgs {
  // Member: one of the manager's devices. Outlives `done`.
  Device* device = nullptr;

  // Collective to run. Passing the same object each time is fastest.
  std::shared_ptr<const CollectiveRequest> request;

  // Unset if the member has no input (broadcast and scatter, except at the
  // root).
  Tensor input;

  // Place of the result; docs/architecture.md has the shapes. May be the
  // input's memory (in place). Never overlaps buffers of other members. The
  // device allocates a tensor if this one is unset. Valid until `done`. Null if
  // the member has no output.
  Tensor* output = nullptr;

  // Allows an unset output to become a tensor shared with other members. Nobody
  // may write to it. All members then get one buffer, written once, on these
  // conditions. Their outputs are equal (all_reduce, all_gather, broadcast).
  // All members allow it and set no output. The implementation can do it
  // (ImplementationTraits::shares_output). Else each member gets its own.
  // `output` is then set before `done`, not inside the call.
  bool allow_shared_output = false;

  // Replaces input and output, for all_reduce: tensors reduced together as one
  // long tensor. The request's shape has as many elements as all segments
  // together. `allow_shared_output` is then ignored.
  std::shared_ptr<const SegmentList> segments;

  // Factor of this member's input in a reduction: multiplies it before it is
  // combined (MultiplyBy), as NCCL's premultiplied sum does. Members may give
  // different factors; a member that gives none has 1. Only for floating and
  // complex dtypes, and for devices with host memory.
  //
  // The products are written to the output, if it has the input's shape, else
  // to memory of the device. The input stays as it is, unless the member runs
  // in place. `allow_shared_output` is then ignored.
  std::optional<double> input_factor;

  // Overrides how results are written within a process. Affects the caches of
  // all members: among the members that set it, the lowest rank decides.
  StoreHint store_hint = StoreHint::kBySize;

  // Limits from the call to `done`.
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;

  // Number of the execution of the instance in this step, such as a loop
  // counter; less than 2^63. Default: the member's n-th call is the n-th
  // execution. A member always gives it or never.
  std::optional<uint64_t> execution;
};

// Side of a message between two members of a group.
struct PointToPointArgs {
  // For receives: the next message of any other member.
  static constexpr int kAnyPeer = -1;

  // Member: one of the manager's devices. Outlives `done`.
  Device* device = nullptr;

  // Group of both members, from ParamResolverInterface::CompleteGroupAsync().
  std::shared_ptr<const CollGroupParams> group;

  int peer = -2;    // Rank of the other member, or kAnyPeer.
  int32_t tag = 0;  // Not negative.

  // Place for the rank of the sender, of a receive from any member. Null, or
  // valid until `done`; set before `done` if the receive got a message.
  int* sender = nullptr;

  // Bytes to send, or the place of the received ones. Belongs to the message
  // until `done`.
  Tensor tensor;

  // Limits from the call to `done`.
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;
};

// Default threshold in bytes of all inputs and outputs: from this size on,
// results are written past the caches. Measured with 32 MiB of last-level
// cache.
inline constexpr int64_t kPastCachesFromBytes = int64_t{16} << 20;

// Runs the collectives of one step for the devices of this process.
//
// Thread-safe. `done` runs exactly once, with no lock held. Its thread is the
// caller's, another member's, a canceller's, or one of the work queue, the
// clock or the transport. `done` must not block. Until `done`, input and output
// belong to the collective. After an error the content of the output is
// undefined.
//
// An execution fails as a whole, and other executions are not affected. All
// members whose part had not ended report its first error.
class CollectiveExecutor
    : public std::enable_shared_from_this<CollectiveExecutor> {
 public:
  // For managers; only the library makes cores.
  explicit CollectiveExecutor(std::unique_ptr<ExecutorCore> core);
  ~CollectiveExecutor();
  CollectiveExecutor(const CollectiveExecutor&) = delete;
  CollectiveExecutor& operator=(const CollectiveExecutor&) = delete;

  // Errors, on all members where possible: INVALID_ARGUMENT for an invalid
  // request and for requests that differ; DEADLINE_EXCEEDED with the missing
  // members, the phase and the time waited; the reason of a cancellation; the
  // status of an abort; CANCELLED after the step's clean-up. Errors of this
  // call alone: ALREADY_EXISTS for an execution that the member has already
  // joined; INVALID_ARGUMENT for no device or request, for another process's
  // device, and for a number that is too large.
  void ExecuteAsync(CollectiveArgs args, StatusCallback done);

  using PrepareCallback = absl::AnyInvocable<
      void(absl::StatusOr<std::shared_ptr<PreparedCollective>>) &&>;

  // Does all work that comes before the run, once, for a collective that runs
  // repeatedly with the same arguments. `done` gets an object that only has to
  // be started. Reads and writes no buffer, and counts no execution. `deadline`
  // and `cancellation` apply to the preparation. Allocates an output that is
  // not set.
  //
  // Waits until all members have called or prepared the instance once. Errors:
  // as ExecuteAsync(), on all members whose preparation had not ended; also
  // INVALID_ARGUMENT if `args.execution` is set. `done` runs as in
  // ExecuteAsync().
  void Prepare(CollectiveArgs args, PrepareCallback done);

  // Send a tensor to another member of a group, and receive one. In a step, the
  // n-th send from a member to another one under a tag meets the n-th receive
  // there. A call that fails counts: the other side gets the same error. Both
  // `done` run when the bytes have been read; bytes that nobody receives keep
  // their sender waiting. `done` runs as in ExecuteAsync(); the order of calls
  // on several threads is the caller's business.
  //
  // A receive from any member (PointToPointArgs::kAnyPeer) becomes a receive
  // from the member whose next message is the first to be sent, or to fail. The
  // receives of a member from any other under a tag get their messages in the
  // order of their calls; messages of one sender stay in order. A receive from
  // a given member takes its next message at once, also before a receive from
  // any member that is older. Each tag of such receives keeps a request at
  // every other member until the step ends: use few tags. Until a receive has a
  // message, its error is of this call alone, and names group, tag and the time
  // waited. Afterwards errors are those of the message.
  //
  // Errors, on both sides: INVALID_ARGUMENT with both sizes and dtypes if they
  // differ; DEADLINE_EXCEEDED with the missing side and the time waited; the
  // reason of a cancellation, of the step's abort, or of the group's end;
  // FAILED_PRECONDITION in a step where the same messages used an earlier
  // generation of the group, if it has members in other tasks. Errors of this
  // call alone, which does not count: INVALID_ARGUMENT for wrong arguments.
  void SendAsync(PointToPointArgs args, StatusCallback done);
  void RecvAsync(PointToPointArgs args, StatusCallback done);

  // Does both at once. `done` gets the first error, after both have ended. Also
  // INVALID_ARGUMENT if the two tensors overlap.
  void SendRecvAsync(PointToPointArgs send, PointToPointArgs recv,
                     StatusCallback done);

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

  // Runs `ready` with OK once all members of this process have launched the
  // dependencies of the context's instance, or with the execution's error. The
  // n-th execution waits for the n-th execution of each. Called before Run(),
  // for every implementation.
  void WaitForDependencies(const CollectiveContext& context,
                           StatusCallback ready);

  // Reports that the execution has begun the part that must be ordered among
  // collectives. Call once per context. An execution that ends without a launch
  // counts as launched.
  void Launched(const CollectiveContext& context);

  // Reports the launch of several members of one execution, at the cost of one
  // member. No other call of Launched() for these members may run at the same
  // time.
  void LaunchedTogether(absl::Span<const CollectiveContext* const> contexts);

  // Ends the execution on all members. The first status stays.
  void FailExecution(Execution& execution, absl::Status status);

  // For the library.
  ExecutorCore& core() { return *core_; }

 private:
  const std::unique_ptr<ExecutorCore> core_;
};

// Observes the results of this process's members, from every implementation.
class CollectiveObserver {
 public:
  // Part of a member in an execution, after it ended with OK. Valid during the
  // call.
  struct Finished {
    Device& device;  // Member.
    const CollectiveRequest& request;
    int64_t step_id = 0;
    uint64_t execution = 0;  // Number within the step, per instance.

    // Complete result; unset if the member has none. Nobody writes it until the
    // call returns. Copy it for later use.
    const Tensor& output;

    // Holds the output if the member has segments; else null.
    const SegmentList* segments = nullptr;
  };

  virtual ~CollectiveObserver() = default;

  // Runs once for each part, before its `done` and on the same thread, with no
  // lock held. Calls for different members may run at the same time. Delays
  // this member's `done`, and other members whose parts end on the same thread:
  // must not block or throw. Not called for parts that fail, nor for
  // preparations.
  virtual void OnFinished(const Finished& finished) = 0;

  // Called in place of OnFinished(), which it calls by default. The member's
  // `done` waits for `shown`, and nobody writes the output before: for copies
  // from a device's memory. `shown` runs once, on any thread.
  virtual void Observe(const Finished& finished, Work shown) {
    OnFinished(finished);
    std::move(shown)();
  }
};

// Step id -> executor. Thread-safe.
//
// A step id is used once. Ids come from step_sequence(), or from the caller,
// which then does not repeat them.
class CollectiveExecutorMgrInterface {
 public:
  virtual ~CollectiveExecutorMgrInterface() = default;

  // The executor of a step, made on first use. Whoever holds it may keep it,
  // but after the step's clean-up all its calls end with CANCELLED. Never null:
  // a step id that has been cleaned up gets an executor all of whose calls end
  // with FAILED_PRECONDITION.
  virtual std::shared_ptr<CollectiveExecutor> FindOrCreate(int64_t step_id) = 0;

  // Ends what the step still runs, and its later uses; idempotent. Waits for
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
// what still runs, and all calls in steps requested meanwhile. Those calls keep
// alive what they need, except for the environment and the devices.
class CollectiveExecutorMgr : public CollectiveExecutorMgrInterface {
 public:
  struct Options {
    Environment environment;
    const DeviceManager* devices = nullptr;  // Outlives all executors.
    std::shared_ptr<ParamResolverInterface> param_resolver;
    std::shared_ptr<DeviceResolverInterface> device_resolver;
    std::shared_ptr<StepSequenceInterface> step_sequence;

    // Makes the transport of a step. Runs once per executor, with no lock held.
    // If it returns null, all calls of the step end with INTERNAL. Empty
    // function: only members in this process can take part.
    std::function<std::unique_ptr<PeerAccessInterface>(int64_t step_id)>
        make_peer_access;

    // Threshold in bytes of all inputs and outputs of an execution within a
    // process. From this size on, results are written past the caches, because
    // they would not stay there. CollectiveArgs::store_hint overrides it.
    // `tutti tune` measures it (SelectionRules). Unset: kPastCachesFromBytes.
    std::optional<int64_t> past_caches_from_bytes;
  };

  // Errors: INVALID_ARGUMENT for a missing option; the first error of a
  // registration (CollectiveRegistry::status).
  static absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> Create(
      Options options);
  ~CollectiveExecutorMgr() override;

  // Shows `observer` the results of all steps whose executors are made from now
  // on. Null, the default: no observer. These executors keep the observer
  // alive.
  void SetObserver(std::shared_ptr<CollectiveObserver> observer);

  std::shared_ptr<CollectiveExecutor> FindOrCreate(int64_t step_id) override;
  void Cleanup(int64_t step_id) override;
  void CleanupAll() override;

  // Does the same as CleanupAll(), but running calls end with `reason`.
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
