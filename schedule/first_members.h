#ifndef TUTTI_SCHEDULE_FIRST_MEMBERS_H_
#define TUTTI_SCHEDULE_FIRST_MEMBERS_H_

#include <cstdint>

#include "tutti/params.h"

namespace tutti {

// The first members of all tasks, as a group of their own: who a collective's
// stage between processes runs among.

// Whether the member is one of them.
bool IsFirstOfTask(const CollectiveParams& whole);

// What such a member needs to reduce among them: its rank is the number of its
// task, the instance is `whole`'s without the final op, and of a vector of so
// many elements. The group has the key, the generation and the fate of
// `whole`'s, transfers in it have the ranks of `whole` in their keys, and it is
// one object as long as that lives. REQUIRES: IsFirstOfTask().
CollectiveParams AmongFirstMembers(const CollectiveParams& whole,
                                   int64_t num_elements);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_FIRST_MEMBERS_H_
