#ifndef TUTTI_OUTFEED_OUTFEED_STATISTICS_H_
#define TUTTI_OUTFEED_OUTFEED_STATISTICS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tutti {

// Of one device of a receiver.
struct OutfeedStatistics {
  uint64_t num_items = 0;  // Whose callback has returned OK.

  // Of payload, that count against the receiver's limit: those received, that
  // of the running callback, and that which is granted the next room.
  int64_t queued_bytes = 0;

  // How long nothing was received from the device because there was no room.
  absl::Duration blocked_time;

  // OK while the stream goes on and after its shutdown. Otherwise its error,
  // which senders get too.
  absl::Status status;

  // Nothing more is delivered. Not before Start().
  bool has_ended = false;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_OUTFEED_STATISTICS_H_
