#ifndef TUTTI_SCHEDULE_RANKS_IN_KEYS_H_
#define TUTTI_SCHEDULE_RANKS_IN_KEYS_H_

#include <vector>

namespace tutti {

// For a group that is a part of another one and shares its key: by rank, the
// ranks that its members have there, by which transfers are known (BufKey).
// Belongs to the group's resources. Empty, as in groups that are no part: their
// own.
struct RanksInKeys {
  std::vector<int> ranks;  // Set before the group is used.
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_RANKS_IN_KEYS_H_
