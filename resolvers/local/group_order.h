#ifndef TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_
#define TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_

#include <vector>

#include "absl/types/span.h"
#include "tutti/device.h"

namespace tutti {

// Returns the order in which devices get their ranks, as positions in
// `devices`. Sorts by job, replica and task number. Within a task the order is
// a ring along the strongest links. The ring begins at the lowest device index.
// Each next device is the remaining one with the strongest link, or among
// equals the lowest index. Pure: the order of the input does not matter.
std::vector<int> DefaultRankOrder(absl::Span<const DeviceAttributes> devices);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_
