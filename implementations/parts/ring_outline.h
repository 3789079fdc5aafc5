#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RING_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RING_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

// Data that goes round the rings of a plan (subdivision.h). One time around is
// n - 1 transfers.
struct RingRounds {
  int times_around = 1;
  int times_reduced = 0;    // First times around, of sums.
  bool copies_own = false;  // Copies the own block first.
  int max_partials = 0;     // Partial sums with their own memory.
};

// Outline of one or several rings. The period is one task if all tasks have the
// same number of devices, and one rank within a single task. A ring of a given
// order has no period. Rings of the same order are one ring.
absl::StatusOr<std::unique_ptr<const Outline>> RingOutline(
    const PlanRequest& request, const RingRounds& rounds);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RING_OUTLINE_H_
