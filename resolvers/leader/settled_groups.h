#ifndef TUTTI_RESOLVERS_LEADER_SETTLED_GROUPS_H_
#define TUTTI_RESOLVERS_LEADER_SETTLED_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  using Answer = absl::StatusOr<std::shared_ptr<const CollectiveParams>>;

  // Request of one member, and the params settled for it.
  struct Member {
    std::shared_ptr<const CollectiveRequest> request;
    std::shared_ptr<const CollectiveParams> params;

    // Returns the params. Errors: those of CheckSameRequest().
    Answer AnswerTo(const CollectiveRequest& other) const;
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

  // Returns null if there is none.
  GroupPtr Find(GroupKey key) const;

  // Returns the answer to a device of this task, if its group lives and what it
  // requests is settled. `group_only`: requests the group alone, and gets
  // params without an instance. Errors: INVALID_ARGUMENT if the request does
  // not match what is settled.
  std::optional<Answer> FindAnswer(const CollectiveRequest& request,
                                   absl::string_view device_name,
                                   bool group_only) const;

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
  static Answer Membership(const Group& group, int rank,
                           const CollectiveRequest& request);
  size_t NumEntries(const Group& group) const;

  const std::string task_name_;
  size_t num_entries_ = 0;
  absl::flat_hash_map<GroupKey, GroupPtr> groups_;
  absl::flat_hash_map<GroupKey, uint64_t> failed_generations_;
  absl::flat_hash_set<GroupKey> reformed_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_SETTLED_GROUPS_H_
