#ifndef TUTTI_FRAMEWORK_EXECUTOR_TABLE_ENTRIES_H_
#define TUTTI_FRAMEWORK_EXECUTOR_TABLE_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/implementation.h"
#include "tutti/peer_access.h"

namespace tutti {

struct TableDevice;
struct TableInstance;
struct TableMember;

// Instances of an execution table, with their members and the members' devices.
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
// Not thread-safe: the table's mutex guards the entries. References stay valid
// until MakeRoom() forgets their instance.
class TableEntries {
 public:
  struct Forgotten {
    std::vector<ExecKey> keys;  // Executions that lacked a member.
    std::vector<std::shared_ptr<const void>> rest;  // Freed without the lock.
  };

  TableEntries(size_t num_local_devices, size_t max_entries);
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

  TableMember& FindOrAddMember(const Device* device,
                               const CollectiveRequest& request);

  // Returns true if MakeRoom() is due before this member is added.
  bool NeedsRoomFor(const Device* device, InstanceId id) const {
    return members_.size() >= max_entries_ && !members_.contains({device, id});
  }

  // Forgets old instances if there are too many entries.
  Forgotten MakeRoom();

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
  Forgotten ForgetOldInstances();
  void Forget(InstanceId id, Forgotten* forgotten);

  size_t next_sweep_ = 0;
  absl::flat_hash_map<MemberKey, std::unique_ptr<TableMember>> members_;
  absl::flat_hash_map<InstanceId, std::unique_ptr<TableInstance>> instances_;
  absl::flat_hash_map<const Device*, std::unique_ptr<TableDevice>> devices_;

  // Instances that depend on others or are depended upon.
  absl::flat_hash_set<InstanceId> kept_;

  const size_t num_local_devices_;
  const size_t max_entries_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_TABLE_ENTRIES_H_
