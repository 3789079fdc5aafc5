#ifndef TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_
#define TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/device.h"

namespace tutti {

// Returns the order in which devices get their ranks, as positions in
// `devices`. Sorts by job, replica and task number. Within a task the order is
// a ring along the strongest links. The ring begins at the lowest device index.
// Each next device is the remaining one with the strongest link, or among
// equals the lowest index. Pure: the order of the input does not matter.
std::vector<int> DefaultRankOrder(absl::Span<const DeviceAttributes> devices);

// Same as DefaultRankOrder(), but each task's ring follows `ring_order`, a list
// of all device indices of a task. Errors: INVALID_ARGUMENT if the list lacks a
// device's index or names one twice.
absl::StatusOr<std::vector<int>> ConfiguredRankOrder(
    absl::Span<const DeviceAttributes> devices,
    absl::Span<const int> ring_order);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_
