#ifndef TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_H_
#define TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/base/number_map.h"
#include "framework/base/number_set.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

struct TableInstance;

// Execution, with the state that the table keeps for it under the table's
// mutex.
//
// Members mostly come one after the other on several threads. The fields that
// each member writes therefore lie in another cache line than the fields that
// it reads.
class TableExecution final : public Execution {
 public:
  using Execution::Execution;

 private:
  friend class ExecutionTable;

  TableInstance* instance_ = nullptr;  // Valid while a member is in it.
  std::optional<ExecKey> key_;
  std::shared_ptr<const CollGroupParams> group_;  // Set with key_, once.
  std::shared_ptr<const void> owner_;  // Table's owner; see HoldOwner.
  bool resolved_ = false;              // First to be settled for some member.

  // Fields below: written by each member. A device that has left may be gone.
  ABSL_CACHELINE_ALIGNED absl::InlinedVector<const Device*, 16> joined_;
  size_t num_left_ = 0;
  size_t num_cancelling_ = 0;
  bool over_ = false;  // The table has forgotten the execution.
};

// State of an instance in the table. Fields that each call reads and writes are
// next to each other.
struct ABSL_CACHELINE_ALIGNED TableInstance {
  uint64_t last_used = 0;  // Counted in joins.
  TableExecution* latest =
      nullptr;  // Execution under way that a member joined last, or null.
  NumberMap<std::shared_ptr<TableExecution>> executions;

  // Number of members in this process. All devices of the process after a wrong
  // group size or rank.
  size_t num_expected = 0;
  size_t num_held = 0;  // Members held by Hold().
  bool spans_tasks = false;
  std::vector<const Device*> members;
  std::vector<std::shared_ptr<TableExecution>> spare;  // Kept to use again.
  NumberSet ended;  // Executions that have left `executions`.
};

// Instances that a step has run, their members on the devices of this process,
// and the executions under way. The n-th call of each member of an instance
// makes the n-th execution. The table remembers everything that later
// executions of an instance need: each costs one look-up.
//
// Groups that are formed again: a member that was not in the ended group joins
// the execution that the others join next. It skips the executions of the ended
// group. This holds only for groups whose members are all in this process.
//
// An execution stays until all members of this process took part in it and
// left. A member that comes late thus learns that the execution failed.
//
// An entry is one member's part in one instance, about 200 bytes. For each
// instance the table keeps up to two executions to use again; for each device
// it keeps some calls. At `max_entries` entries the table forgets instances, at
// the earliest when a quarter as many entries were used since. It forgets:
// - instances with no execution under way, whose members came equally often;
// - instances whose executions failed while a member was missing.
// It never forgets an instance that depends on others or is depended upon. It
// keeps instances with members in other tasks too, because those tasks number
// their executions alike.
//
// The table's owner lives as long as a member is in an execution. Thread-safe;
// the table runs no callbacks but HoldOwner.
class ExecutionTable {
 public:
  // Facts settled about an instance for one of its members.
  struct Settled {
    explicit Settled(std::shared_ptr<const CollectiveParams> params)
        : params(std::move(params)),
          generation(this->params->group->generation),
          group_end(this->params->group->cancellation.get()),
          spans_tasks(this->params->task->num_local <
                      this->params->group->size()) {}

    const std::shared_ptr<const CollectiveParams> params;

    // Copied from the group: calls read these fields often, and the objects on
    // the way to the group may have left the caches.
    const uint64_t generation;
    const Cancellation* const group_end;
    const bool spans_tasks;

    std::shared_ptr<const CollectiveRequest> request;
    std::shared_ptr<CollectiveImplementationInterface> implementation;
    bool shares_output = false;   // The implementation can share its output.
    bool takes_segments = false;  // The implementation can take segments.
    bool has_dependencies = false;
  };

  // Entry of one member in one instance.
  struct Member;

  // State shared by all members of a device.
  struct TableDevice;

  // Call of a member whose instance is settled, from JoinSettled() to Leave().
  // The table then keeps the object for another call. Its context has the
  // fields that do not come from the caller.
  struct Call {
    std::shared_ptr<const Settled> settled;
    Execution* execution = nullptr;
    CollectiveContext context;
    StatusCallback done;

    TableDevice* device = nullptr;  // Device that keeps the object.
  };

  struct Forgotten {
    std::vector<ExecKey> keys;  // Executions that lacked a member.
    std::vector<std::shared_ptr<const void>> rest;  // Freed without the lock.
  };
  struct Joined {
    std::shared_ptr<Execution> execution;

    // Error of a member that has joined nevertheless. ABORTED if the execution
    // runs in another generation of the group than the one settled for the
    // member. INVALID_ARGUMENT if the member gives a number now and did not
    // before, or the other way round: it is then in the execution after its
    // last, where the others wait for it.
    absl::Status status;
    std::shared_ptr<const Settled> settled;  // Left by Settle(), or null.
    Forgotten forgotten;
  };

  // Returns a pointer that keeps the owner. Called with the table's lock.
  using HoldOwner = absl::FunctionRef<std::shared_ptr<const void>()>;

  ExecutionTable(int64_t step_id, size_t num_local_devices, size_t max_entries);
  ~ExecutionTable();
  ExecutionTable(const ExecutionTable&) = delete;
  ExecutionTable& operator=(const ExecutionTable&) = delete;

  // Joins the member's next execution, or the one numbered `number`. Errors:
  // ALREADY_EXISTS if the device was in that execution; INVALID_ARGUMENT if
  // `number` is too large, or if no execution is left to join.
  absl::StatusOr<Joined> Join(const Device* device,
                              const CollectiveRequest& request,
                              std::optional<uint64_t> number,
                              HoldOwner hold_owner) ABSL_LOCKS_EXCLUDED(mu_);

  // Joins like Join() without a number, for a member whose instance was settled
  // by this very request object. Its group must live. For any other member
  // returns null and does nothing. Sets `status` to Joined::status. Allocates
  // nothing if an earlier call's memory is free.
  Call* JoinSettled(Device* device, const CollectiveRequest& request,
                    HoldOwner hold_owner, absl::Status* status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Joins like Join() without a number, for a held member: looks nothing up,
  // and allocates nothing where an execution can be used again. The result is
  // valid until the member leaves. Sets `status` to Joined::status, or returns
  // null with an error of Join().
  Execution* JoinNext(Member& member, HoldOwner hold_owner,
                      absl::Status* status) ABSL_LOCKS_EXCLUDED(mu_);

  // Joins an execution in which the members prepare the executions that follow.
  // Preparations are counted apart: the n-th preparation of one member is the
  // n-th of every member.
  Joined JoinPreparation(const Device* device, const CollectiveRequest& request,
                         HoldOwner hold_owner) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the entry of a member that has joined. The entry stays until
  // Release().
  Member& Hold(const Device* device, InstanceId id) ABSL_LOCKS_EXCLUDED(mu_);
  void Release(Member& member) ABSL_LOCKS_EXCLUDED(mu_);

  // Remembers `settled` for the member's later executions, and gives this
  // execution its key. Errors: ABORTED if this execution runs in another
  // generation of the group. FAILED_PRECONDITION if an earlier execution ran in
  // another generation, and other tasks have members: they count their calls
  // there.
  absl::Status Settle(const Device* device, Execution& execution,
                      std::shared_ptr<const Settled> settled)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Members that leave an execution.
  struct Leaving {
    size_t num_members = 1;
    size_t num_unlaunched = 0;  // Members that count as launched by leaving.

    // Calls of these members, as far as they have one. The table takes them
    // over.
    absl::Span<Call* const> calls;
  };

  // Result of Leave().
  struct Left {
    // Key of an execution that failed, if its transfers can be forgotten: no
    // member here is in it, and no thread cancels it.
    std::optional<ExecKey> to_forget;

    // Freed without the lock, the owner last.
    std::shared_ptr<const void> owner;
    std::shared_ptr<const void> execution;
    std::vector<std::unique_ptr<Call>> calls;
  };
  Left Leave(Execution& execution, const Leaving& leaving)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the key of the transfers to cancel, or none if the execution is
  // over. The table does not forget the execution until EndCancel(). The key
  // has generation 0 as long as no member here knows its group.
  std::optional<ExecKey> BeginCancel(Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

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

  size_t num_instances() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct MemberKey {
    const Device* device;
    InstanceId id;
    friend bool operator==(const MemberKey&, const MemberKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const MemberKey& key) {
      return H::combine(std::move(h), key.device, key.id);
    }
  };
  Member& FindOrAddMember(const Device* device,
                          const CollectiveRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static absl::StatusOr<uint64_t> ChooseNumber(const Device* device,
                                               InstanceId id,
                                               std::optional<uint64_t> number,
                                               Member& member);
  static bool IsOfOthers(const Member& member, uint64_t number);
  void GoOnWithOthers(Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void KeepCalls(absl::Span<Call* const> calls,
                        std::vector<std::unique_ptr<Call>>* dropped);
  Forgotten MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static bool IsLaunched(const TableInstance& instance,
                         const TableExecution& execution);
  static const Settled* LivingSettled(const Member& member);
  TableExecution& Enter(Member& member, uint64_t number, const Settled* living,
                        HoldOwner hold_owner, absl::Status* status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // `living`: the settled facts of the member if its group lives, or null.
  static std::shared_ptr<TableExecution> MakeExecution(Member& member,
                                                       uint64_t number,
                                                       const Settled* living);
  absl::Status CheckGeneration(const Member& member,
                               const CollGroupParams& group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status SetKey(TableExecution& execution, const Settled& settled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static bool IsAbandoned(const TableExecution& execution);
  static std::optional<ExecKey> KeyToForget(const TableExecution& execution);
  // Returns an execution that is over and not kept, to free without the lock.
  std::shared_ptr<const void> EndIfAllLeft(TableInstance& instance,
                                           TableExecution& execution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t NumCalls(const Device* device, InstanceId id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsIdle(InstanceId id, const TableInstance& instance)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Forgotten ForgetOldInstances() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(InstanceId id, Forgotten* forgotten)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t step_id_;
  const size_t num_local_devices_;
  const size_t max_entries_;

  // Written by each call.
  ABSL_CACHELINE_ALIGNED Mutex mu_;
  uint64_t num_joins_ ABSL_GUARDED_BY(mu_) = 0;

  size_t next_sweep_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<MemberKey, std::unique_ptr<Member>> members_
      ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<InstanceId, std::unique_ptr<TableInstance>> instances_
      ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<const Device*, std::unique_ptr<TableDevice>> devices_
      ABSL_GUARDED_BY(mu_);

  // Instances that depend on others or are depended upon.
  absl::flat_hash_set<InstanceId> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_EXECUTION_TABLE_H_
