#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RING_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RING_OUTLINE_H_

#include <memory>

#include "tutti/schedule.h"

namespace tutti {

// What goes round the rings of a plan (subdivision.h), once each time around
// n - 1 transfers.
struct RingRounds {
  int times_around = 1;
  int times_reduced = 0;    // The first so many times around are sums.
  bool copies_own = false;  // The own block is copied, before all else.
  int max_partials = 0;     // Sums on their way that have their own memory.
};

// The outline of one or several rings. Where all tasks have the same number of
// devices, ranks do the same task after task; in one task, rank after rank; but
// not in a ring of a given order. Rings of one order are one ring.
std::unique_ptr<const Outline> RingOutline(const PlanRequest& request,
                                           const RingRounds& rounds);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RING_OUTLINE_H_
