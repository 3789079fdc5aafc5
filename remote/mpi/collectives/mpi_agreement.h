#ifndef TUTTI_REMOTE_MPI_COLLECTIVES_MPI_AGREEMENT_H_
#define TUTTI_REMOTE_MPI_COLLECTIVES_MPI_AGREEMENT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "remote/mpi/messages/mpi_note.h"
#include "remote/mpi/messages/mpi_part.h"
#include "tutti/peer_access.h"

namespace tutti {

// Agreement of a group's processes on when, and in which order, to begin the
// executions that they leave to MPI. MPI requires one order on all processes,
// and cannot take back an execution that has begun.
//
//   member                      leader (the group's rank 0)
//     ready {execution}  --->     when all are ready and none has withdrawn:
//                        <---   begin {execution}
//
//   or:  withdraw {execution}  --->
//                        <---   withdrawn {execution}, unless it has said begin
//
// An execution begins on all members or on none. No member waits in MPI for a
// member that does not come. Exception: a leader that the members gave up as
// lost, and that goes on, may begin an execution alone. A leader says begin in
// an order that it chooses; all members begin in that order. The agreement
// takes one round of short messages.
//
// Short data is carried by the notes: "ready" carries the member's input,
// "begin" the merged inputs, which the leader computes. MPI then has nothing to
// do, and the group needs no communicator for it. If the leader cannot merge,
// it says withdrawn to all, with the reason. Two processes have a shorter way
// (mpi_exchange.h).
//
// The first "begin" of a group also makes the members create their
// communicator, which blocks MPI's thread. For it the leader needs leave from
// task 0, which grants leave to one leader at a time. Overlapping groups
// therefore do not wait for each other in a circle.
//
// "Ready" says whether the member's input is its output, "begin" whether any
// member's is: MPI requires that all reduce in place, or none. "Ready" also has
// a digest of the rows that the member gives (GivesRows()). If digests
// differ, the leader says withdrawn to all, with the reason.
//
// Pure except for its callbacks. For one thread, except for Awaited(). No task
// waits for a task that is gone: the executions that such a task leads end.
class MpiAgreement {
 public:
  struct Options {
    int this_task = 0;

    // Sends a note to another task. Notes to one task must stay in order.
    std::function<void(int task, const MpiNote& note)> send;
  };

  explicit MpiAgreement(Options options) : options_(std::move(options)) {}

  // Adds a part, which waits to begin. Refuses it with ALREADY_EXISTS if
  // another part waits under its key. Refuses it with UNAVAILABLE if its leader
  // is gone, or task 0 for leave.
  void AddReady(const MpiPartPtr& part) ABSL_LOCKS_EXCLUDED(mu_);

  // Refuses the part with `why`, if that is possible; else the part begins.
  void Withdraw(const ExecKey& key, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mu_);

  void OnNote(int task, const MpiNote& note);

  // Forgets the group, which has no communicator now.
  void ForgetGroup(const ExecKey& key) { led_.erase(GroupOf(key)); }

  // Ends the executions that a lost task leads, and those led here that wait
  // for it. If the task goes on, its withdrawals are still answered. The first
  // reason stays.
  void OnGone(int task, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

  // Number and keys of the waiting parts of this process.
  size_t num_waiting() const { return Waiting().size(); }
  std::vector<ExecKey> Waiting() const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the tasks for which the part of `key` waits. If it is led here: the
  // tasks that are not ready, or none if it waits for leave. Else: its leader.
  // Null if no part waits. On any thread.
  std::optional<std::vector<int>> Awaited(const ExecKey& key) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the number of executions and groups for which this task keeps state
  // as their leader.
  size_t num_led() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return ready_.size() + led_.size();
  }

 private:
  // Group key and generation.
  using GroupId = std::pair<int64_t, uint64_t>;

  struct Waiter {
    MpiPartPtr part;         // Null: there is none.
    absl::Status withdrawn;  // Reason; OK: not withdrawn.
  };

  struct ReadyMember {
    std::string carried;
    uint64_t rows_digest = 0;
  };

  // Other members that are ready.
  struct Ready {
    absl::flat_hash_map<int, ReadyMember> members;  // Keyed by task.
    bool any_in_place = false;  // Includes members that have withdrawn.
  };

  // State of a group that this task leads.
  struct LedGroup {
    bool has_communicator = false;
    std::deque<ExecKey> complete;  // Executions that wait for leave.
  };

  static GroupId GroupOf(const ExecKey& key) {
    return {key.group, key.generation};
  }
  bool leads(const MpiPart& part) const {
    return part.tasks()[0] == options_.this_task;
  }
  Waiter Find(const ExecKey& key) const ABSL_LOCKS_EXCLUDED(mu_);
  Waiter Take(const ExecKey& key) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status WhyNotReady(const MpiPart& part) const;
  void Send(int task, const MpiNote& note);

  // Functions of a leader.
  void AddReadyTask(int task, const MpiNote& note) ABSL_LOCKS_EXCLUDED(mu_);
  void RemoveReadyTask(int task, const ExecKey& key) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsComplete(const ExecKey& key) const ABSL_LOCKS_EXCLUDED(mu_);
  void BeginIfComplete(const ExecKey& key);
  void SayBegin(const ExecKey& key) ABSL_LOCKS_EXCLUDED(mu_);
  void SayWithdrawn(MpiPart& own, const absl::Status& why);
  void SendToOthers(const MpiPart& own, const MpiNote& note);
  static absl::Status CheckRows(const MpiPart& own, const Ready& others);
  static absl::StatusOr<std::string> MergeCarried(const MpiPart& own,
                                                  const Ready& others);
  void OnLeave(const ExecKey& key);

  // Functions of task 0.
  void RequestPermission(int task, const ExecKey& key);
  void ReturnLeave(int task);
  void GiveLeave();

  void Begin(const ExecKey& key, const MpiPart::Order& order);
  void Refuse(const ExecKey& key, absl::Status why);

  const Options options_;
  absl::flat_hash_map<GroupId, LedGroup> led_;
  absl::flat_hash_map<int, absl::Status> gone_;

  // The holder of the leave first, then the waiting tasks.
  std::deque<std::pair<int, ExecKey>> leaves_;

  mutable Mutex mu_;
  absl::flat_hash_map<ExecKey, Waiter> parts_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<ExecKey, Ready> ready_ ABSL_GUARDED_BY(mu_);  // Led here.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_AGREEMENT_H_
