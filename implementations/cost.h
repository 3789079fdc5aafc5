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

// Seconds for n - 1 such messages, each with one of n blocks: what it takes at
// least to bring a member all blocks but its own.
inline double OtherBlocksSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  return TransferSeconds(query.model, size - 1,
                         (size - 1) / size * query.bytes);
}

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_COST_H_
