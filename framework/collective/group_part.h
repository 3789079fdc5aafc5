#ifndef TUTTI_FRAMEWORK_COLLECTIVE_GROUP_PART_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_GROUP_PART_H_

#include <memory>
#include <vector>

#include "tutti/params.h"

namespace tutti {

// Ranks that transfer keys (BufKey) name, for a group that is part of another
// group and shares its key. Belongs to the group's resources. Empty for groups
// that are no part: keys then name the group's own ranks.
struct RanksInKeys {
  std::vector<int> ranks;  // By rank. Set before the first use.
};

// Makes the part of a group with these members, in this order. It has the key,
// the generation and the end of the whole group, and resources for itself.
// REQUIRES: there is a rank, and all are ranks of `whole`.
std::shared_ptr<const CollGroupParams> MakeGroupPart(
    const CollGroupParams& whole, std::vector<int> ranks);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_GROUP_PART_H_
