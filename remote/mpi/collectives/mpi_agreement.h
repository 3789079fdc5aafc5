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

// When, and in which order, the processes of a group begin the executions that
// they leave to MPI: MPI wants one order on all of them, and takes nothing back
// that has begun.
//
//   member                      leader (the group's rank 0)
//     ready {execution}  --->     when all are ready, of which none has
//                        <---   begin {execution}   withdrawn:
//
//   or:  withdraw {execution}  --->
//                        <---   withdrawn {execution}, unless it has said begin
//
// So an execution begins on all members or on none, and nobody waits in MPI for
// one that does not come; but a leader that the members gave up as lost, and
// that goes on, may begin one by itself. A leader says begin in an order of its
// own, in which all begin. It is one round of short messages in all.
//
// Little data goes along: with ready the member's input, with begin what all of
// these come to, which the leader works out. Then MPI has nothing to do, and
// the group needs no communicator for it. If the leader cannot, it says
// withdrawn to all, and why. Two processes have a shorter way for that
// (mpi_exchange.h).
//
// The first begin of a group also has the members make their communicator,
// which blocks MPI's thread: for it the leader gets leave from task 0, which
// gives it to one at a time, so that groups that overlap do not wait for each
// other in a circle.
//
// With ready comes whether the member's input is its output, with begin whether
// any member's is: MPI has all of them reduce in place, or none. With ready
// also comes a digest of the rows that the member gives (AllGather::rows);
// where they differ, the leader says withdrawn to all, and why.
//
// Pure but for what it calls. For one thread, but for Awaited(). A task that is
// gone is not waited for any more: what it leads ends.
class MpiAgreement {
 public:
  struct Options {
    int this_task = 0;

    // In order; not to this one.
    std::function<void(int task, const MpiNote& note)> send;
  };

  explicit MpiAgreement(Options options) : options_(std::move(options)) {}

  // The part waits to begin. Refused with ALREADY_EXISTS if one waits under its
  // key, with UNAVAILABLE if its leader, or who gives leave, is gone.
  void AddReady(const MpiPartPtr& part) ABSL_LOCKS_EXCLUDED(mu_);

  // Has the part refused with `why`, if it can; else it begins.
  void Withdraw(const ExecKey& key, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mu_);

  void OnNote(int task, const MpiNote& note);

  // The group has no communicator any more.
  void ForgetGroup(const ExecKey& key) { led_.erase(GroupOf(key)); }

  // The task is lost: what it leads, or what was led here and waits for it,
  // ends. Should it go on, what it withdraws is answered. The first reason
  // stays.
  void OnGone(int task, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

  // Parts of this process that wait.
  size_t num_waiting() const { return Waiting().size(); }
  std::vector<ExecKey> Waiting() const ABSL_LOCKS_EXCLUDED(mu_);

  // For whom the part of `key` waits: for the tasks that are not ready, if it
  // is led here, else for its leader; for leave, if for nobody. Null: none
  // waits. On any thread.
  std::optional<std::vector<int>> Awaited(const ExecKey& key) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Executions and groups of which it keeps something as their leader.
  size_t num_led() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return ready_.size() + led_.size();
  }

 private:
  // By group key and generation.
  using GroupId = std::pair<int64_t, uint64_t>;

  struct Waiter {
    MpiPartPtr part;         // Null: there is none.
    absl::Status withdrawn;  // Why; OK: it is not.
  };

  struct ReadyMember {
    std::string carried;
    uint64_t rows_digest = 0;
  };

  // The other members that are ready.
  struct Ready {
    absl::flat_hash_map<int, ReadyMember> members;  // By task.
    bool any_in_place = false;  // Also of those that have withdrawn.
  };

  // What this task knows of a group that it leads.
  struct LedGroup {
    bool has_communicator = false;
    std::deque<ExecKey> complete;  // Waits for leave.
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

  // As a leader.
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

  // As task 0.
  void AskForLeave(int task, const ExecKey& key);
  void ReturnLeave(int task);
  void GiveLeave();

  void Begin(const ExecKey& key, const MpiPart::Order& order);
  void Refuse(const ExecKey& key, absl::Status why);

  const Options options_;
  absl::flat_hash_map<GroupId, LedGroup> led_;
  absl::flat_hash_map<int, absl::Status> gone_;

  // Who has leave, and then who waits for it.
  std::deque<std::pair<int, ExecKey>> leaves_;

  mutable Mutex mu_;
  absl::flat_hash_map<ExecKey, Waiter> parts_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<ExecKey, Ready> ready_ ABSL_GUARDED_BY(mu_);  // Led here.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_AGREEMENT_H_
