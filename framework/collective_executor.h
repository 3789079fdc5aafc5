#ifndef TUTTI_FRAMEWORK_COLLECTIVE_EXECUTOR_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/cancellation.h"
#include "framework/collective_context.h"
#include "framework/collective_request.h"
#include "framework/device.h"
#include "framework/environment.h"
#include "framework/peer_access.h"
#include "framework/prepared_collective.h"
#include "framework/segment_list.h"
#include "framework/status_callback.h"
#include "framework/tensor.h"

namespace tutti {

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

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_EXECUTOR_H_
