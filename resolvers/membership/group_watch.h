#ifndef TUTTI_RESOLVERS_MEMBERSHIP_GROUP_WATCH_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_GROUP_WATCH_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_directory.h"
#include "tutti/collective.h"

namespace tutti {

// Tasks that this one watches for its living groups: of each group the next
// ones in the ring of the group's tasks. So the number of heartbeats of a task
// does not grow with the group. The loss of any member ends the group, so one
// watcher of it that lives is enough.
//
// Thread-safe.
class GroupWatch {
 public:
  GroupWatch(int this_task, std::shared_ptr<const GroupDirectory> directory)
      : this_task_(this_task), directory_(std::move(directory)) {}

  // Handles a new or ended generation. Call from the directory's listener.
  void OnGroupChanged(GroupKey key, uint64_t generation)
      ABSL_LOCKS_EXCLUDED(mu_);

  std::vector<int> tasks() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Watched {
    uint64_t generation = 0;
    std::vector<int> tasks;
  };

  void Remove(GroupKey key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int this_task_;
  const std::shared_ptr<const GroupDirectory> directory_;
  mutable Mutex mu_;
  absl::flat_hash_map<GroupKey, Watched> groups_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<int, int> num_groups_of_task_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_GROUP_WATCH_H_
