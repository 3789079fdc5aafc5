#ifndef TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

struct ShuffleStages {
  bool scatters = false;  // Round 1: all send owners their blocks.
  bool gathers = false;   // Then all send all their blocks.
};

// Outline of DirectReduceScatter, which scatters, of BruckGather, which
// gathers, and of ShuffleReduce, which does both. All ranks do the same.
// Errors: UNIMPLEMENTED if the request lists owners.
absl::StatusOr<std::unique_ptr<const Outline>> ShuffleOutline(
    const PlanRequest& request, const ShuffleStages& stages);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_
