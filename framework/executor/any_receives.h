#ifndef TUTTI_FRAMEWORK_EXECUTOR_ANY_RECEIVES_H_
#define TUTTI_FRAMEWORK_EXECUTOR_ANY_RECEIVES_H_

#include <cstdint>
#include <memory>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/executor/announcement.h"
#include "framework/executor/execution_table.h"
#include "framework/executor/point_to_point.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"

namespace tutti {

class ExecutorCore;

// Receive from any member, until it becomes a receive from one of them.
struct AnyReceive {
  PointToPointArgs args;
  int rank = 0;  // Of the receiver.
  absl::Time start;
  std::shared_ptr<CollectiveExecutor> executor;
  StatusCallback done;

  // Execution in which it waits, and the end of that wait.
  std::shared_ptr<Execution> execution;
  StatusCallback end_wait;

  // Message that it becomes. Set before `end_wait` runs with OK.
  Message message;
  ExecutionTable::Joined joined;

  // For AnyReceives.
  Cancellation::WatchId watch = 0;
  bool is_added = false;
  bool is_over = false;  // Before it was added.
  absl::Status end;
};

// Finds senders for the receives of a step from any member.
//
//   receiver                                      sender
//   RecvAsync: request an announcement     --->   rendezvous: the message is
//     of each member's next message               posted? else wait for it
//   oldest open receive takes the number   <---   answer: posted, or ended
//   receive of message n from the sender   --->   the message itself
//
// A receive from any member waits in an execution of its own, of the path from
// the receiver to itself: limits, aborts and ends of the group end it there, as
// they end every call. Only the receiver chooses, in the order of the answers.
// A number is taken in the execution table, under its lock: by a receive from
// any member only if its announcement is the newest of the path, else by a
// receive from the given sender. So no message gets two receives.
//
// A receive from a given sender may take a number whose announcement is
// requested. It then waits for that answer before it requests the message:
// until then the message stays posted, so that each request is answered.
// Announcements stay requested when no receive is open, and serve later ones.
// A sender gets no request, and posts nothing more, where nobody receives
// from any member.
//
// Thread-safe. Callbacks run with no lock held.
class AnyReceives {
 public:
  explicit AnyReceives(ExecutorCore& core) : core_(core) {}
  ~AnyReceives();
  AnyReceives(const AnyReceives&) = delete;
  AnyReceives& operator=(const AnyReceives&) = delete;

  void Add(std::shared_ptr<AnyReceive> receive) ABSL_LOCKS_EXCLUDED(mu_);

  // Fails the executions of all open receives.
  void EndStep(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the announcements of a generation that has ended, and forgets it.
  void EndGroup(GroupKey group, uint64_t generation, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Senders;

  // Group, generation, receiver and tag.
  using Key = std::tuple<GroupKey, uint64_t, const Device*, int32_t>;

  ExecutorCore& core_;
  Mutex mu_;
  absl::flat_hash_map<Key, std::shared_ptr<Senders>> senders_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_ANY_RECEIVES_H_
