#ifndef TUTTI_IMPLEMENTATIONS_PARTS_PIPELINES_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_PIPELINES_H_

#include <cstdint>
#include <vector>

#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Subdivisions that take the same path and follow each other on it.
struct Pipeline {
  // Every rank once; the ranks of a task are consecutive (RingOrder).
  std::vector<int> order;
  std::vector<int> subdivs;  // Increasing.
};

// Returns a pipeline for each different offset; the first subdivisions first.
std::vector<Pipeline> PipelinesOf(const PlanRequest& request);

// Returns pipelines that begin with the source (request.root), for collectives
// that have one. The other devices of its task follow, then the next tasks.
std::vector<Pipeline> PipelinesFromSource(const PlanRequest& request);

// Returns the position of `rank` in an order.
int PositionIn(const std::vector<int>& order, int rank);

// Length of a path. NumPieces() chooses the number of pieces from it.
struct PipelineShape {
  int num_rounds = 1;  // Rounds of the first piece.
  double load = 1;     // Buffers that the busiest rank sends or receives.
};

// Most pieces that NumPieces() chooses: more pieces gain little.
inline constexpr int kMaxPieces = 64;

// Returns the number of pieces with the least time by the cost model. More
// pieces fill a pipeline sooner, but each is a message. At most kMaxPieces, and
// at most max_subdivs_per_device times the average number of devices per task.
// A max_subdivs_per_device of 0 sets no bound; -1 means one piece.
int NumPieces(const SubdivisionRequest& request, const PipelineShape& shape);

// Returns `num_pieces` subdivisions that all take the same path.
inline std::vector<int> OnePipeline(int num_pieces) {
  return std::vector<int>(num_pieces, 0);
}

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_PIPELINES_H_
