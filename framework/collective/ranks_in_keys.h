#ifndef TUTTI_FRAMEWORK_COLLECTIVE_RANKS_IN_KEYS_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_RANKS_IN_KEYS_H_

#include <vector>

namespace tutti {

// Ranks that transfer keys (BufKey) name, for a group that is part of another
// group and shares its key. Belongs to the group's resources. Empty for groups
// that are no part: keys then name the group's own ranks.
struct RanksInKeys {
  std::vector<int> ranks;  // By rank. Set before the first use.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_RANKS_IN_KEYS_H_
