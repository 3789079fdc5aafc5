#ifndef TUTTI_FRAMEWORK_CONTROL_CONTROL_CHANNEL_H_
#define TUTTI_FRAMEWORK_CONTROL_CONTROL_CHANNEL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "tutti/environment.h"

namespace tutti {

using ControlAnswer = absl::StatusOr<proto::ControlReply>;

// Runs exactly once, with no lock held; must not block.
using ControlDone = absl::AnyInvocable<void(ControlAnswer) &&>;

// Who calls, as the transport knows it: authenticated where it authenticates.
struct ControlCaller {
  int task = 0;

  // Of the caller's process: another number each time it starts.
  uint64_t incarnation = 0;

  friend bool operator==(const ControlCaller&, const ControlCaller&) = default;
};

struct ControlCallOptions {
  absl::Time deadline = absl::InfiniteFuture();

  // Ends the call with its reason and tells the other side.
  std::shared_ptr<Cancellation> cancellation;

  // Whether to keep trying, until the deadline, if the task cannot be reached.
  bool wait_until_reachable = false;

  // Whether the call is for whichever process the task is now. Otherwise it is
  // for the one that was heard of last: it ends with FAILED_PRECONDITION if
  // another one has taken its place.
  bool to_any_process = false;
};

// Requests to the other tasks of a cluster, and their answers. Messages are
// small; each call stands alone: calls to one task may overtake one another.
//
// Thread-safe. `done` runs on a thread of the channel's, or inside the call or
// the one that cancels.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  // Errors: what the other side answered; UNAVAILABLE, naming task and address,
  // if it cannot be reached or the connection closes; DEADLINE_EXCEEDED; the
  // reason of the cancellation; RESOURCE_EXHAUSTED for a request or an answer
  // that is too large; UNAUTHENTICATED, PERMISSION_DENIED or
  // FAILED_PRECONDITION if the tasks do not belong together (token, job,
  // protocol version).
  virtual void Call(int task, proto::ControlRequest request,
                    ControlCallOptions options, ControlDone done) = 0;

  // As long as the sum of all `change`s is more than 0, somebody here waits for
  // what other tasks may say at any time: a channel that has to look for that
  // looks more often. By default nothing.
  virtual void AddWaiting(int /*change*/) {}
};

// Who answers the calls of other tasks. Thread-safe; must not block.
class ControlService {
 public:
  virtual ~ControlService() = default;

  // `withdrawn` is set when the caller does not wait for the answer any more:
  // it gave up, or is gone. `done` must run all the same.
  virtual void Handle(const ControlCaller& caller,
                      const proto::ControlRequest& request,
                      std::shared_ptr<Cancellation> withdrawn,
                      ControlDone done) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CONTROL_CONTROL_CHANNEL_H_
