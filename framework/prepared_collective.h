#ifndef TUTTI_FRAMEWORK_PREPARED_COLLECTIVE_H_
#define TUTTI_FRAMEWORK_PREPARED_COLLECTIVE_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "framework/cancellation.h"
#include "framework/params.h"
#include "framework/status_callback.h"
#include "framework/tensor.h"

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

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PREPARED_COLLECTIVE_H_
