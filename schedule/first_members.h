#ifndef TUTTI_SCHEDULE_FIRST_MEMBERS_H_
#define TUTTI_SCHEDULE_FIRST_MEMBERS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tutti/params.h"

namespace tutti {

// The group of the first members of all tasks. The stage between processes of a
// collective runs among them.

// Returns true if the member is the first of its task.
bool IsFirstOfTask(const CollectiveParams& whole);

// Returns the tasks of `ranks`, each once, in the order of their first rank
// here.
std::vector<int> TasksOf(const GroupLayout& layout,
                         absl::Span<const int> ranks);

// Parameters of a reduction of `num_elements` elements among the first members.
// The rank is the number of the member's task. The instance is that of `whole`
// without the final op; its list of ranks names the TasksOf() the list.
//
// The group has the key, the generation and the cancellation of `whole`'s
// group. Its transfers have the ranks of `whole` in their keys. Every call for
// one group returns the same group object while `whole`'s group lives.
// REQUIRES: IsFirstOfTask().
CollectiveParams AmongFirstMembers(const CollectiveParams& whole,
                                   int64_t num_elements);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_FIRST_MEMBERS_H_
