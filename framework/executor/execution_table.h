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

// Execution with what its table knows of it, under the table's mutex.
//
// Members mostly come one after the other on several threads, so what each of
// them writes lies in a cache line apart from what each of them reads.
class TableExecution final : public Execution {
 public:
  using Execution::Execution;

 private:
  friend class ExecutionTable;

  TableInstance* instance_ = nullptr;  // Valid while anybody is in it.
  std::optional<ExecKey> key_;
  std::shared_ptr<const CollGroupParams> group_;  // Set with it, once.
  std::shared_ptr<const void> owner_;  // Of the table, while anybody is in it.
  bool resolved_ =
      false;  // For some member it was the first one to be settled.

  // Written by each member. A device that has left may be gone.
  ABSL_CACHELINE_ALIGNED absl::InlinedVector<const Device*, 16> joined_;
  size_t num_left_ = 0;
  size_t num_cancelling_ = 0;
  bool over_ = false;  // Forgotten by the table.
};

// What the table knows of an instance. What each call reads and writes is
// together.
struct ABSL_CACHELINE_ALIGNED TableInstance {
  uint64_t last_used = 0;  // In joins.
  TableExecution* latest =
      nullptr;  // That a member joined, while it is under way.
  NumberMap<std::shared_ptr<TableExecution>> executions;

  // Members of this process; all of its devices after a wrong group size or
  // rank.
  size_t num_expected = 0;
  size_t num_held = 0;  // Members' places that are held.
  bool spans_tasks = false;
  std::vector<const Device*> members;
  std::vector<std::shared_ptr<TableExecution>> spare;  // To use again.
  NumberSet ended;  // Executions that are not in `executions` any more.
};

// Which instances a step has run, on which devices of this process, and which
// executions are under way. The n-th call of each member of an instance makes
// the n-th execution. Remembers what an instance's later executions need, so
// that they cost one look-up.
//
// Where the group has ended, and all of it was in this process, who was not in
// it goes on with the others when it is formed again: in the first execution
// that was none of those.
//
// An execution stays until all members of this process took part in it and
// left: so a member that comes late learns that it failed.
//
// An entry is one member's part in one instance, about 200 bytes; up to two
// executions of an instance are kept to be used again, and some calls of each
// device. When there are
// `max_entries`, instances are forgotten that have no execution under way and
// whose members came equally often, and those that failed while somebody was
// missing; at the earliest when a quarter as many entries were used since.
// Those that depend on others, or are depended upon, stay; so do those with
// members in other tasks, which number their executions as this one does.
//
// Who owns the table lives as long as a member is in an execution of it.
// Thread-safe; calls nobody.
class ExecutionTable {
 public:
  // What was settled about an instance for one of its members.
  struct Settled {
    explicit Settled(std::shared_ptr<const CollectiveParams> params)
        : params(std::move(params)),
          generation(this->params->group->generation),
          group_end(this->params->group->cancellation.get()),
          spans_tasks(this->params->task->num_local <
                      this->params->group->size()) {}

    const std::shared_ptr<const CollectiveParams> params;

    // The group's, at hand: calls look at them often, and what leads there may
    // have left the caches.
    const uint64_t generation;
    const Cancellation* const group_end;
    const bool spans_tasks;

    std::shared_ptr<const CollectiveRequest> request;
    std::shared_ptr<CollectiveImplementationInterface> implementation;
    bool shares_output = false;   // The implementation can.
    bool takes_segments = false;  // The same.
    bool has_dependencies = false;
  };

  // One member's part in one instance.
  struct Member;

  // What all of a device's members share.
  struct TableDevice;

  // A call of a member whose instance is settled, from JoinSettled() to
  // Leave(); then it is kept for another one. Its context has what does not
  // come from the caller.
  struct Call {
    std::shared_ptr<const Settled> settled;
    Execution* execution = nullptr;
    CollectiveContext context;
    StatusCallback done;

    TableDevice* device = nullptr;  // For which it is kept.
  };

  struct Forgotten {
    std::vector<ExecKey> keys;  // Of executions that somebody never came to.
    std::vector<std::shared_ptr<const void>> rest;  // Freed without the lock.
  };
  struct Joined {
    std::shared_ptr<Execution> execution;

    // The member has joined all the same. ABORTED if it runs in another
    // generation of the group than the one that was settled for the member;
    // INVALID_ARGUMENT if it gives a number now and did not before, or the
    // other way round: then it is in the execution after its last, where others
    // wait for it.
    absl::Status status;
    std::shared_ptr<const Settled> settled;  // What Settle() left, or null.
    Forgotten forgotten;
  };

  // Keeps the owner while it is held. Called with the table's lock.
  using HoldOwner = absl::FunctionRef<std::shared_ptr<const void>()>;

  ExecutionTable(int64_t step_id, size_t num_local_devices, size_t max_entries);
  ~ExecutionTable();
  ExecutionTable(const ExecutionTable&) = delete;
  ExecutionTable& operator=(const ExecutionTable&) = delete;

  // The member's next execution, or the one numbered `number`. Errors:
  // ALREADY_EXISTS if the device was in that execution; INVALID_ARGUMENT if
  // `number` is past the last that can be named, or none is left to join.
  absl::StatusOr<Joined> Join(const Device* device,
                              const CollectiveRequest& request,
                              std::optional<uint64_t> number,
                              HoldOwner hold_owner) ABSL_LOCKS_EXCLUDED(mu_);

  // As Join() without a number, for a member that is known, and whose instance
  // was settled by this very request in a group that lives; null, and nothing
  // is done, for any other. Sets `status` to that of Joined. Allocates nothing
  // where what earlier ones used is free.
  Call* JoinSettled(Device* device, const CollectiveRequest& request,
                    HoldOwner hold_owner, absl::Status* status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // As Join() without a number, for a member whose place is held: looks nothing
  // up, and allocates nothing where an execution can be used again. Valid until
  // the member leaves. Sets `status` to that of Joined, or returns null with an
  // error as of Join().
  Execution* JoinNext(Member& member, HoldOwner hold_owner,
                      absl::Status* status) ABSL_LOCKS_EXCLUDED(mu_);

  // An execution in which the members prepare those that follow. They are
  // counted apart: the member's n-th is the n-th of each.
  Joined JoinPreparation(const Device* device, const CollectiveRequest& request,
                         HoldOwner hold_owner) ABSL_LOCKS_EXCLUDED(mu_);

  // The place of a member that has joined, which stays until Release().
  Member& Hold(const Device* device, InstanceId id) ABSL_LOCKS_EXCLUDED(mu_);
  void Release(Member& member) ABSL_LOCKS_EXCLUDED(mu_);

  // Remembers `settled` for the member's later executions, and gives this one
  // its key. Errors: ABORTED if it runs in another generation of the group;
  // FAILED_PRECONDITION if an earlier one did, and the instance has members in
  // other tasks, whose calls are counted there.
  absl::Status Settle(const Device* device, Execution& execution,
                      std::shared_ptr<const Settled> settled)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Members whose part in an execution has ended.
  struct Leaving {
    size_t num_members = 1;
    size_t num_unlaunched = 0;  // Those that count as launched by that.

    // Of those that have one: not theirs any more.
    absl::Span<Call* const> calls;
  };

  // What is left of it.
  struct Left {
    // The key if it failed and its transfers can be forgotten: nobody here is
    // in it any more, and nobody cancels it.
    std::optional<ExecKey> to_forget;

    // Freed without the lock, the owner last.
    std::shared_ptr<const void> owner;
    std::shared_ptr<const void> execution;
    std::vector<std::unique_ptr<Call>> calls;
  };
  Left Leave(Execution& execution, const Leaving& leaving)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The key of transfers to cancel: the execution is not forgotten until
  // EndCancel(). Of generation 0 as long as no member here knows its group.
  // None if it is over.
  std::optional<ExecKey> BeginCancel(Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Group in which it runs. REQUIRES: BeginCancel() gave a key with a
  // generation.
  static const CollGroupParams& GroupOf(const Execution& execution) {
    return *static_cast<const TableExecution&>(execution).group_;
  }

  // After a BeginCancel() that returned a key. As Leave().
  std::optional<ExecKey> EndCancel(Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether all members of this process have launched that execution, or it has
  // failed. False for an instance that was forgotten.
  bool HasLaunched(InstanceId id, uint64_t number) ABSL_LOCKS_EXCLUDED(mu_);

  // Names of the devices of this process that have come.
  std::vector<std::string> JoinedNames(const Execution& execution)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The one under way whose transfers run by that key; null: none.
  std::shared_ptr<Execution> Find(const ExecKey& key) ABSL_LOCKS_EXCLUDED(mu_);

  // Those under way: all, or those whose transfers run in one generation of a
  // group.
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
  // `living`: as for MakeExecution().
  static const Settled* LivingSettled(const Member& member);
  TableExecution& Enter(Member& member, uint64_t number, const Settled* living,
                        HoldOwner hold_owner, absl::Status* status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // `living`: what was settled for the member, if its group lives, or null.
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
  // What is over and not kept.
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

  // What each call writes.
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
