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

// Caller as known to the transport; authenticated if the transport
// authenticates.
struct ControlCaller {
  int task = 0;

  // Incarnation of the caller's process; changes each time the process starts.
  uint64_t incarnation = 0;

  friend bool operator==(const ControlCaller&, const ControlCaller&) = default;
};

struct ControlCallOptions {
  absl::Time deadline = absl::InfiniteFuture();

  // Ends the call with its reason and informs the other side.
  std::shared_ptr<Cancellation> cancellation;

  // Retries until the deadline, also if no process listens there.
  bool wait_until_reachable = false;

  // Addresses the call to any process of the task. Otherwise the call is for
  // the last known process: if another process has replaced it, the call ends
  // with FAILED_PRECONDITION.
  bool to_any_process = false;
};

// Sends requests to the other tasks of a cluster, and receives their answers.
// Messages are small. Calls are independent: calls to one task may overtake
// each other.
//
// Thread-safe. `done` runs on a thread of the channel, inside the call, or
// inside the call that cancels.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  // If the connection to a known process breaks, sends the request again over a
  // new one, until the call's limits: the process may live, and get the request
  // more than once.
  //
  // Errors: the other side's error; UNAVAILABLE, naming task and address, if no
  // process listens there, or one that is not known closes the connection;
  // DEADLINE_EXCEEDED; the reason of the cancellation; RESOURCE_EXHAUSTED for a
  // request or an answer that is too large. UNAUTHENTICATED, PERMISSION_DENIED
  // or FAILED_PRECONDITION if the tasks do not belong together (token, job,
  // protocol version).
  virtual void Call(int task, proto::ControlRequest request,
                    ControlCallOptions options, ControlDone done) = 0;

  // Adds `change` to the number of callers here that wait for messages of other
  // tasks. A channel that polls should poll more often while the sum is
  // positive. The default does nothing.
  virtual void AddWaiting(int /*change*/) {}
};

// Answers the calls of other tasks. Every request may come more than once,
// because a caller that got no answer repeats it. Thread-safe; must not block.
class ControlService {
 public:
  virtual ~ControlService() = default;

  // Answers a call. `withdrawn` is cancelled when the caller has stopped
  // waiting or is gone. `done` must run even then.
  virtual void Handle(const ControlCaller& caller,
                      const proto::ControlRequest& request,
                      std::shared_ptr<Cancellation> withdrawn,
                      ControlDone done) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CONTROL_CONTROL_CHANNEL_H_
