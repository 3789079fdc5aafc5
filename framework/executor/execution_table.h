#ifndef TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_H_
#define TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/executor/settled_facts.h"
#include "framework/executor/table_entries.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// Instances that a step has run, their members on the devices of this process,
// and the executions under way. The n-th call of each member of an instance
// makes the n-th execution. The table remembers everything that later
// executions of an instance need: each costs one look-up. TableEntries says
// when the table forgets an instance.
//
// Groups that are formed again: a member that was not in the ended group joins
// the execution that the others join next. It skips the executions of the ended
// group. This holds only for groups whose members are all in this process.
//
// An execution stays until all members of this process took part in it and
// left. A member that comes late thus learns that the execution failed.
//
// An executor has one table for collectives and one for messages, whose
// executions are counted from kMessages on.
//
// The table's owner lives as long as a member is in an execution. Thread-safe;
// the table runs no callbacks but HoldOwner and IsLocal.
class ExecutionTable {
 public:
  struct Joined {
    // Valid until the member leaves. Null, and `status` says why, if the member
    // has not joined.
    Execution* execution = nullptr;

    // Also the error of a member that has joined nevertheless. ABORTED if the
    // execution runs in another generation of the group than the one settled
    // for the member. INVALID_ARGUMENT if the member gives a number now and did
    // not before, or the other way round: it is then in the execution after its
    // last, where the others wait for it.
    absl::Status status;
    // Facts left by Settle(), or null. Valid until the member leaves.
    const SettledFacts* settled = nullptr;
    std::unique_ptr<TableEntries::Forgotten> forgotten;  // Null if nothing.
    // Announcement requested of the joined message, or null. Its answer comes
    // before the message is requested.
    std::shared_ptr<Announcement> announcement;
  };

  // Returns a pointer that keeps the owner. Called with the table's lock.
  using HoldOwner = absl::FunctionRef<std::shared_ptr<const void>()>;

  // `is_local` returns whether a device is one of this process. Called with the
  // table's lock, for members that are new.
  using IsLocal = absl::AnyInvocable<bool(const Device*) const>;

  ExecutionTable(int64_t step_id, size_t num_local_devices, size_t max_entries,
                 IsLocal is_local, uint64_t first_number = 0);
  ~ExecutionTable();
  ExecutionTable(const ExecutionTable&) = delete;
  ExecutionTable& operator=(const ExecutionTable&) = delete;

  // Joins the member's next execution, or the one numbered `number`. Errors:
  // ALREADY_EXISTS if the device was in that execution; INVALID_ARGUMENT if
  // `number` is too large, if no execution is left to join, or if the device is
  // not local.
  Joined Join(const Device* device, const CollectiveRequest& request,
              std::optional<uint64_t> number, HoldOwner hold_owner)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Gives `announcement` the number of the message that the member receives
  // next on a path, in the generation `group`. Returns Joined::forgotten. Sets
  // `status` to FAILED_PRECONDITION, as Settle(), if the path was used in
  // another generation. REQUIRES: the device is local.
  std::unique_ptr<TableEntries::Forgotten> Announce(
      const Device* device, const CollectiveRequest& request,
      const CollGroupParams& group, std::shared_ptr<Announcement> announcement,
      absl::Status* status) ABSL_LOCKS_EXCLUDED(mu_);

  // Joins like Join(). Joins nothing, with OK, if the number of the
  // announcement is taken or a later announcement has it.
  Joined JoinAnnounced(const Device* device, const CollectiveRequest& request,
                       const Announcement& announcement, HoldOwner hold_owner)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Joins like Join() without a number, for a held member: looks nothing up,
  // and allocates nothing where an execution can be used again. Sets `status`
  // to Joined::status.
  Execution* JoinNext(TableMember& member, HoldOwner hold_owner,
                      absl::Status* status) ABSL_LOCKS_EXCLUDED(mu_);

  // Joins an execution in which the members prepare the executions that follow.
  // Preparations are counted apart: the n-th preparation of one member is the
  // n-th of every member.
  Joined JoinPreparation(const Device* device, const CollectiveRequest& request,
                         HoldOwner hold_owner) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the entry of a member that has joined. The entry stays until
  // Release().
  TableMember& Hold(const Device* device, InstanceId id)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Release(TableMember& member) ABSL_LOCKS_EXCLUDED(mu_);

  // Remembers `settled` for the member's later executions, unless it remembers
  // facts of the same group, and gives this execution its key. Errors: ABORTED
  // if this execution runs in another generation of the group.
  // FAILED_PRECONDITION if an earlier execution ran in another generation, and
  // other tasks have members: they count their calls there.
  absl::Status Settle(const Device* device, Execution& execution,
                      std::shared_ptr<const SettledFacts> settled)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Members that leave an execution.
  struct Leaving {
    size_t num_members = 1;
    size_t num_unlaunched = 0;  // Members that count as launched by leaving.
  };

  // Result of Leave().
  struct Left {
    // Key of an execution that failed, if its transfers can be forgotten: no
    // member here is in it, and no thread cancels it.
    std::optional<ExecKey> to_forget;

    // Freed without the lock, the owner last.
    std::shared_ptr<const void> owner;
    std::shared_ptr<const void> execution;
  };
  Left Leave(Execution& execution, const Leaving& leaving)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the key of the transfers to cancel, or none if the execution is
  // over. The table does not forget the execution until EndCancel(). The key
  // has generation 0 as long as no member here knows its group.
  std::optional<ExecKey> BeginCancel(Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Keeps the execution past the time that a member is in it.
  static std::shared_ptr<Execution> Share(Execution& execution) {
    return static_cast<TableExecution&>(execution).shared_from_this();
  }

  // Returns the group in which the execution runs. REQUIRES: BeginCancel()
  // returned a key with a generation.
  static const CollGroupParams& GroupOf(const Execution& execution) {
    return *static_cast<const TableExecution&>(execution).group_;
  }

  // Ends a BeginCancel() that returned a key. Returns the same key as
  // Left::to_forget.
  std::optional<ExecKey> EndCancel(Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if all members of this process have launched the execution, or
  // if it failed. False for a forgotten instance.
  bool HasLaunched(InstanceId id, uint64_t number) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the names of the devices of this process that have joined.
  std::vector<std::string> JoinedNames(const Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the execution under way whose transfers use `key`, or null.
  std::shared_ptr<Execution> Find(const ExecKey& key) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the executions under way: all of them, or all whose transfers run
  // in one generation of a group.
  std::vector<std::shared_ptr<Execution>> Running() ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<std::shared_ptr<Execution>> RunningIn(GroupKey group_key,
                                                    uint64_t generation)
      ABSL_LOCKS_EXCLUDED(mu_);

  size_t num_instances() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return entries_.num_instances();
  }

 private:
  static bool IsLaunched(const TableInstance& instance,
                         const TableExecution& execution);
  // Inline: every call joins by these, in execution_table.cc alone.
  inline TableMember* FindOrAddMember(const Device* device,
                                      const CollectiveRequest& request,
                                      Joined* joined)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  inline TableExecution* EnterNext(TableMember& member,
                                   std::optional<uint64_t> number,
                                   HoldOwner hold_owner, absl::Status* status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  inline TableExecution& Enter(TableMember& member, uint64_t number,
                               HoldOwner hold_owner, absl::Status* status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  static std::shared_ptr<Announcement> TakeAnnouncement(TableMember& member,
                                                        const Joined& joined);

  // `living`: the settled facts of the member if its group lives, or null.
  static std::shared_ptr<TableExecution> MakeExecution(
      TableMember& member, uint64_t number, const SettledFacts* living);
  absl::Status CheckGeneration(const TableMember& member,
                               const CollGroupParams& group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status SetKey(TableExecution& execution, const SettledFacts& settled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns an execution that is over and not kept, to free without the lock.
  std::shared_ptr<const void> EndIfAllLeft(TableInstance& instance,
                                           TableExecution& execution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t step_id_;
  const IsLocal is_local_;

  // Written by each call.
  ABSL_CACHELINE_ALIGNED Mutex mu_;
  uint64_t num_joins_ ABSL_GUARDED_BY(mu_) = 0;
  TableEntries entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_H_
