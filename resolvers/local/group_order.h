#ifndef TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_
#define TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/device.h"

namespace tutti {

// The order in which devices get their ranks: by job and replica, tasks in
// numeric order, and within a task a ring that follows the strongest links:
// from the device of the lowest index always on to the one, of those not yet in
// the ring, that has the strongest link, and among equals the lowest index.
// Returns positions in `devices`. Pure: the order of the input does not matter.
std::vector<int> DefaultRankOrder(absl::Span<const DeviceAttributes> devices);

// The same, but each task's ring goes by `ring_order`, a list of all device
// indices of a task. Errors: INVALID_ARGUMENT if a device's index is not in it
// or it names one twice.
absl::StatusOr<std::vector<int>> ConfiguredRankOrder(
    absl::Span<const DeviceAttributes> devices,
    absl::Span<const int> ring_order);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_GROUP_ORDER_H_
