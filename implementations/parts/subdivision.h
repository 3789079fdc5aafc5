#ifndef TUTTI_IMPLEMENTATIONS_PARTS_SUBDIVISION_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_SUBDIVISION_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Returns a ring through all ranks: task after task, and within a task through
// its devices. An offset k >= 0 starts k devices further in each task: with
// four devices, 1 means 1 2 3 0. A negative offset -k goes through the devices
// backwards and starts k further in that direction: -1 means 2 1 0 3. Offsets
// count modulo the devices of the task: -4 is the plain reversal, 3 2 1 0.
//
// `rank_list`, if not empty, is the ring of offset 0, with all ranks in any
// order. Other offsets permute the devices of each task among its places in the
// list.
std::vector<int> RingOrder(const GroupLayout& layout, int offset,
                           absl::Span<const int> rank_list = {});

// The ring of one subdivision, seen from one member. Immutable.
class Ring {
 public:
  // REQUIRES: 0 <= subdiv < request.subdiv_offsets.size().
  Ring(const PlanRequest& request, int subdiv);

  int subdiv() const { return subdiv_; }
  int size() const { return static_cast<int>(order_.size()); }
  int next() const { return Before(size() - 1); }
  int previous() const { return Before(1); }

  // Returns the rank `places` before this rank; this rank for 0 and size().
  // REQUIRES: 0 <= places <= size().
  int Before(int places) const {
    const int index = position_ - places;
    return order_[index < 0 ? index + size() : index];
  }

  // Returns this ring's piece of the block of rank Before(places).
  int ChunkBefore(int places) const {
    return Before(places) * num_subdivs_ + subdiv_;
  }

 private:
  const int subdiv_;
  const int num_subdivs_;
  const std::vector<int> order_;
  const int position_;
};

// Makes a schedule with a ring for each subdivision. The buffer, or the larger
// of both, has a block for each rank, and each block has a chunk for each ring.
// `add_ring` adds the steps of the request's rank in one ring.
Schedule PlanRings(
    const PlanRequest& request,
    absl::FunctionRef<void(const Ring& ring, ScheduleBuilder& builder)>
        add_ring);

// Limit of bytes per chunk of a ring. Larger chunks are subdivided: transfers
// of one piece then overlap with reductions of another.
inline constexpr int64_t kMaxRingChunkBytes = int64_t{4} << 20;

// Returns the fewest subdivisions of a ring for which a chunk, bytes / (ranks *
// subdivisions), is at most kMaxRingChunkBytes. Bounds:
//
// - max_subdivs_per_device times the average number of devices per task. 0
//   stands for 2, or for one subdivision in total if steps are launches; -1
//   stands for one subdivision in total;
// - the limits of a request (kMaxSubdivisions, kMaxChunks).
//
// Offsets are spread over the devices of a task, and every second ring runs
// backwards: 0 -2 4 -6.
std::vector<int> DefaultSubdivisions(const SubdivisionRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_SUBDIVISION_H_
