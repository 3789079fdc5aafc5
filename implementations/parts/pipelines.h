#ifndef TUTTI_IMPLEMENTATIONS_PARTS_PIPELINES_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_PIPELINES_H_

#include <cstdint>
#include <vector>

#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Subdivisions that take the same way follow each other through a pipeline.
struct Pipeline {
  // Every rank once, so that each task's follow each other (RingOrder).
  std::vector<int> order;
  std::vector<int> subdivs;  // Increasing.
};

// One for each different offset; the first subdivisions first.
std::vector<Pipeline> PipelinesOf(const PlanRequest& request);

// The same, for collectives whose source (request.root) comes first: then the
// other devices of its task, then the tasks that follow.
std::vector<Pipeline> PipelinesFromSource(const PlanRequest& request);

// Where `rank` is in an order.
int PositionIn(const std::vector<int>& order, int rank);

// How long a way is, for choosing how many pieces go through it.
struct PipelineShape {
  int num_rounds = 1;  // Of the first piece.
  double load = 1;     // Buffers that the busiest rank sends or receives.
};

// At most so many pieces are chosen: beyond them little is to be gained.
inline constexpr int kMaxPieces = 64;

// The number of pieces that takes least time by the cost model: more pieces
// fill a pipeline sooner, but each is a message. At most kMaxPieces, and at
// most max_subdivs_per_device times the average number of devices per task; 0
// sets no bound, -1 is one piece.
int NumPieces(const SubdivisionRequest& request, const PipelineShape& shape);

// So many subdivisions that all take the same way.
inline std::vector<int> OnePipeline(int num_pieces) {
  return std::vector<int>(num_pieces, 0);
}

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_PIPELINES_H_
