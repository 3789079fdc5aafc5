#ifndef TUTTI_FRAMEWORK_EXECUTOR_TABLE_ENTRIES_H_
#define TUTTI_FRAMEWORK_EXECUTOR_TABLE_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "framework/base/number_map.h"
#include "framework/executor/announcement.h"
#include "framework/executor/settled_facts.h"
#include "tutti/collective.h"
#include "tutti/device.h"
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
class TableExecution final
    : public Execution,
      public std::enable_shared_from_this<TableExecution> {
 public:
  using Execution::Execution;

 private:
  friend class ExecutionTable;
  friend class TableEntries;

  // Returns true if a member is in the execution.
  bool HasMembers() const { return num_left_ < joined_.size(); }

  // Returns true if the execution failed and all its members have left.
  bool IsAbandoned() const { return cancellation.cancelled() && !HasMembers(); }

  // Returns the key of the transfers to forget, or none while they are needed.
  std::optional<ExecKey> KeyToForget() const {
    if (!over_ || num_cancelling_ > 0) return std::nullopt;
    return key_;
  }

  TableInstance* instance_ = nullptr;  // Valid while a member is in it.
  std::optional<ExecKey> key_;
  std::shared_ptr<const CollGroupParams> group_;  // Set with key_, once.
  std::shared_ptr<const void> owner_;  // Table's owner; see HoldOwner.
  bool resolved_ = false;              // First to be settled for some member.
  // Facts that were replaced while members here may read them.
  std::vector<std::shared_ptr<const SettledFacts>> outdated_;

  // Fields below: written by each member. A device that has left may be gone.
  ABSL_CACHELINE_ALIGNED absl::InlinedVector<const Device*, 16> joined_;
  size_t num_left_ = 0;
  size_t num_cancelling_ = 0;
  bool over_ = false;  // The table has forgotten the execution.
};

// State of an instance in the table, guarded by the table's mutex. Fields that
// each call reads and writes are next to each other.
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

// First number of the executions in which members prepare.
inline constexpr uint64_t kPreparations = uint64_t{1} << 63;

// Entry of one member in one instance. Counts the calls of the member, and thus
// chooses the execution of the next one. A member either gives the numbers of
// its executions, or leaves them to the count.
//
// Guarded by the table's mutex.
struct TableMember {
  // Returns INVALID_ARGUMENT if a member cannot give `number`.
  static absl::Status CheckNumber(const Device* device, InstanceId id,
                                  uint64_t number);

  // Takes the number of the execution that the member's next call joins; none
  // if it cannot join. Errors: ALREADY_EXISTS if the member gave `number`
  // before. INVALID_ARGUMENT if the member breaks its habit: it gives a number
  // now and did not before, or the other way round. It then takes the number
  // where the others most likely wait for it, the one after its last.
  std::optional<uint64_t> TakeNumber(std::optional<uint64_t> number,
                                     absl::Status* error);

  // Returns the settled facts if their group lives, or null.
  const SettledFacts* LivingSettled() const {
    return settled != nullptr && !settled->group_end->cancelled()
               ? settled.get()
               : nullptr;
  }

  const Device* device = nullptr;
  InstanceId id;
  TableInstance* instance = nullptr;
  uint64_t num_calls = 0;
  uint64_t num_preparations = 0;
  bool gives_numbers = false;
  NumberSet numbers;         // Numbers that the member gave.
  uint64_t next_number = 0;  // Last given number plus one.
  std::shared_ptr<const SettledFacts> settled;
  bool went_on_with_others = false;
  std::shared_ptr<Announcement> announcement;  // Of the next message, or null.

  // Executions that cannot be used again. The next joiner frees them without
  // the lock.
  std::vector<std::shared_ptr<TableExecution>> dropped;
};

// Instances of an execution table, with their members.
//
// An entry is one member's part in one instance, about 200 bytes. For each
// instance the table keeps up to two executions to use again. At `max_entries`
// entries the table forgets instances, at the earliest when a quarter as many
// entries were used since. It forgets:
// - instances with no execution under way, whose members came equally often;
// - instances whose executions failed while a member was missing.
// It never forgets an instance that depends on others or is depended upon, nor
// a path with an announcement that is not answered. It keeps instances with
// members in other tasks too, because those tasks number their executions
// alike.
//
// Not thread-safe: the table's mutex guards the entries. References stay valid
// until MakeRoom() forgets their instance.
class TableEntries {
 public:
  struct Forgotten {
    std::vector<ExecKey> keys;  // Executions that lacked a member.
    std::vector<std::shared_ptr<const void>> rest;  // Freed without the lock.
  };

  // `first_number`: number of the first execution of each instance.
  TableEntries(size_t num_local_devices, size_t max_entries,
               uint64_t first_number);
  ~TableEntries();
  TableEntries(const TableEntries&) = delete;
  TableEntries& operator=(const TableEntries&) = delete;

  // Returns null if there is none.
  TableMember* FindMember(const Device* device, InstanceId id) const {
    const auto found = members_.find({device, id});
    return found == members_.end() ? nullptr : found->second.get();
  }
  TableInstance* FindInstance(InstanceId id) const {
    const auto found = instances_.find(id);
    return found == instances_.end() ? nullptr : found->second.get();
  }

  // REQUIRES: the member has joined, and its instance is not forgotten.
  TableMember& MemberOf(const Device* device, InstanceId id) const {
    return *members_.at({device, id});
  }

  // REQUIRES: there is none.
  TableMember& AddMember(const Device* device,
                         const CollectiveRequest& request);

  // Forgets old instances if there are too many entries, else returns null.
  std::unique_ptr<Forgotten> MakeRoom();

  // Moves the member past executions in which it would wait alone. Does nothing
  // for a member without a living group while others have one: it wants to join
  // them by mistake, which ends none of their executions.
  void GoOnWithOthers(TableMember& member) const;

  // Returns the executions under way.
  std::vector<std::shared_ptr<Execution>> Running() const;

  // Returns the full name of a device that has joined.
  const std::string& NameOf(const Device* device) const;

  size_t num_instances() const { return instances_.size(); }

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

  static bool IsOfOthers(const TableMember& member, uint64_t number);
  bool IsIdle(InstanceId id, const TableInstance& instance) const;
  std::unique_ptr<Forgotten> ForgetOldInstances();
  void Forget(InstanceId id, Forgotten* forgotten);

  size_t next_sweep_ = 0;
  absl::flat_hash_map<MemberKey, std::unique_ptr<TableMember>> members_;
  absl::flat_hash_map<InstanceId, std::unique_ptr<TableInstance>> instances_;
  absl::flat_hash_map<const Device*, std::string> names_;

  // Instances that depend on others or are depended upon.
  absl::flat_hash_set<InstanceId> kept_;

  const size_t num_local_devices_;
  const size_t max_entries_;
  const uint64_t first_number_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_TABLE_ENTRIES_H_
