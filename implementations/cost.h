#ifndef TUTTI_IMPLEMENTATIONS_COST_H_
#define TUTTI_IMPLEMENTATIONS_COST_H_

#include "framework/implementation_traits.h"

namespace tutti {

// Seconds for `messages` one after the other that carry `bytes` in all. (R. W.
// Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994.)
inline double TransferSeconds(const CostModel& model, double messages,
                              double bytes) {
  return messages * model.latency_seconds + bytes / model.bytes_per_second;
}

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_COST_H_
