#ifndef TUTTI_OUTFEED_OUTFEED_CONNECTION_H_
#define TUTTI_OUTFEED_OUTFEED_CONNECTION_H_

#include <memory>

#include "absl/time/time.h"
#include "framework/cancellation.h"
#include "framework/collective_executor.h"
#include "framework/collective_request.h"
#include "framework/device.h"

namespace tutti {

// Meeting point of the two ends of an outfeed between processes: a group of two
// devices, of which the first receives and the second sends.
struct OutfeedConnection {
  // Of a step of its own, the same at both ends: its abort, or clean-up, ends
  // the connection.
  std::shared_ptr<CollectiveExecutor> executor;

  // This end's member of the group. It outlives the connection.
  Device* device = nullptr;

  // The same at both ends. Connections of one group and step, also those that
  // have ended, have different instance keys.
  GroupKey group_key = 0;
  InstanceKey instance_key = 0;

  // Of the connecting alone, until the other end has connected, too.
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_OUTFEED_CONNECTION_H_
