#ifndef TUTTI_RESOLVERS_LEADER_SETTLED_GROUPS_H_
#define TUTTI_RESOLVERS_LEADER_SETTLED_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// Groups that leaders have settled for the members of this task: the living
// generation of each group, with its instances. Keeps everything while that
// generation lives. Not thread-safe.
class SettledGroups {
 public:
  // Request of one member, and the params settled for it.
  struct Member {
    std::shared_ptr<const CollectiveRequest> request;
    std::shared_ptr<const CollectiveParams> params;

    // Returns the params. Errors: those of CheckSameRequest().
    absl::StatusOr<std::shared_ptr<const CollectiveParams>> AnswerTo(
        const CollectiveRequest& other) const;
  };

  struct Instance {
    std::shared_ptr<const CollInstanceParams> params;
    absl::flat_hash_map<std::string, Member> members;  // Keyed by device.
  };

  struct Group {
    std::shared_ptr<const CollGroupParams> params;
    std::shared_ptr<const CollTaskParams> task;
    absl::flat_hash_map<std::string, int> rank_of_device;  // In this task.
    absl::flat_hash_map<InstanceKey, Instance> instances;
    int leader = -1;  // Task that settled the group.
  };
  using GroupPtr = std::shared_ptr<Group>;

  // `task_name`: the name of this task.
  explicit SettledGroups(std::string task_name)
      : task_name_(std::move(task_name)) {}

  // Return null if there is none.
  GroupPtr Find(GroupKey key) const;
  const Member* Find(InstanceId id, absl::string_view device_name) const;

  // Returns true if `group` is the living generation, and `leader` settled it.
  bool WasSettledBy(int leader, const CollGroupParams& group) const;

  // Returns the entry of this very group. The entry replaces an earlier
  // generation, which goes to `replaced` for the caller to free. Returns null
  // if there is a later generation.
  GroupPtr Add(std::shared_ptr<const CollGroupParams> group,
               GroupPtr* replaced);

  // Returns null if this generation is not there.
  GroupPtr Remove(GroupKey key, uint64_t generation);

  // Does nothing if the group has been removed.
  void AddMember(Group& group, const std::string& device_name, Member member);

  // Notes a generation that could not be formed.
  void SetFailed(GroupKey key, uint64_t generation) {
    failed_generations_[key] = generation;
  }

  // Marks the group to be formed again; the mark stays until Add() of a
  // generation. Returns a failed generation only once.
  struct Former {
    std::shared_ptr<const CollGroupParams> group;  // Living; null: none.
    uint64_t failed_generation = 0;  // Could not be formed; 0: none.
  };
  Former BeginAgain(GroupKey key);
  bool IsFormedAgain(GroupKey key) const { return reformed_.contains(key); }

  // Counts the members of all instances and their rows.
  size_t num_entries() const { return num_entries_; }
  size_t num_groups() const { return groups_.size(); }

 private:
  size_t NumEntries(const Group& group) const;

  const std::string task_name_;
  size_t num_entries_ = 0;
  absl::flat_hash_map<GroupKey, GroupPtr> groups_;
  absl::flat_hash_map<GroupKey, uint64_t> failed_generations_;
  absl::flat_hash_set<GroupKey> reformed_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_SETTLED_GROUPS_H_
