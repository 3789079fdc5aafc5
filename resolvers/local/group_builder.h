#ifndef TUTTI_RESOLVERS_LOCAL_GROUP_BUILDER_H_
#define TUTTI_RESOLVERS_LOCAL_GROUP_BUILDER_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/params.h"

namespace tutti {

// Collects the members of one generation of a group. The first one fixes size
// and device type until all have withdrawn. Not thread-safe.
class GroupBuilder {
 public:
  // Adds a member. Idempotent for a device that joined with the same
  // incarnation and rank. Errors: INVALID_ARGUMENT for a size, device type or
  // rank that does not match, or for one device too many; FAILED_PRECONDITION
  // for a known device with another incarnation. Any error ends the whole
  // group; its key stays failed.
  absl::Status Join(const DeviceAttributes& device,
                    const CollectiveRequest& request);

  // Forgets a device that had joined. Call only before the group is complete.
  void Withdraw(absl::string_view full_name);

  // Returns true if the task has a member with that incarnation; 0 means any
  // incarnation.
  bool HasMemberOfTask(absl::string_view task_name,
                       uint64_t incarnation = 0) const;
  bool empty() const { return members_.empty(); }
  int size() const { return size_; }  // Size of the complete group.
  bool complete() const { return static_cast<int>(members_.size()) == size_; }

  // Returns the group, with members in rank order. Call when complete. Errors:
  // from GroupLayout::Create().
  absl::StatusOr<CollGroupParams> Build(uint64_t generation) const;

  // Returns, for example, "1 of 4 members had joined group 7 (/job:...)".
  std::string Describe() const;

 private:
  struct Member {
    DeviceAttributes device;
    int rank = -1;  // Requested rank; -1: none.
  };

  // Error of the group.
  template <typename... Args>
  absl::Status Invalid(const Args&... args) const {
    return absl::InvalidArgumentError(absl::StrCat("group ", key_, args...));
  }
  absl::Status CheckMatches(const DeviceAttributes& device,
                            const CollectiveRequest& request) const;
  absl::Status CheckSame(const Member& member, const DeviceAttributes& device,
                         int rank) const;
  absl::Status CheckRank(const DeviceAttributes& device, int rank) const;
  void SetIndex(int index);  // Indexes a member that has just moved to `index`.
  std::string first_name() const { return members_[0].device.name.ToString(); }
  std::vector<int> RankOrder() const;

  GroupKey key_ = 0;
  int size_ = 0;
  std::string device_type_;
  std::vector<Member> members_;
  absl::flat_hash_map<std::string, int> index_by_name_;
  absl::flat_hash_map<int, int> index_by_rank_;
};

// Marks the members that are devices of the task
// ("/job:worker/replica:0/task:3"); all members if the name is empty.
CollTaskParams MembersOfTask(const CollGroupParams& group,
                             absl::string_view task_name);

// Returns the tasks that have members.
std::set<int> TasksOf(const CollGroupParams& group);

// Number of tasks that a member's task watches for a group, and passes the
// group's end on to.
inline constexpr int kNumNextTasks = 3;

// Returns the tasks that follow `task` in the ring of the group's tasks, at
// most `count`; none if `task` has no members.
std::vector<int> NextTasksOf(const CollGroupParams& group, int task, int count);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_GROUP_BUILDER_H_
