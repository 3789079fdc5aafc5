#ifndef TUTTI_IMPLEMENTATIONS_PARTS_SUBDIVISION_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_SUBDIVISION_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// A ring through all ranks: task after task, and within a task through its
// devices. An offset k >= 0 starts k devices further in each task: with four
// devices, 1 means 1 2 3 0. A negative offset -k goes through the devices
// backwards and starts k further on that way: -1 means 2 1 0 3. Offsets count
// modulo the number of devices of the task, so that minus that number is the
// plain reversal, 3 2 1 0.
//
// `rank_list`, if not empty, is the ring of offset 0, all ranks in any order.
// By other offsets the devices of each task then take each other's places in
// it.
std::vector<int> RingOrder(const GroupLayout& layout, int offset,
                           absl::Span<const int> rank_list = {});

// The ring of one subdivision as one of its members sees it. Immutable.
class Ring {
 public:
  // REQUIRES: 0 <= subdiv < request.subdiv_offsets.size().
  Ring(const PlanRequest& request, int subdiv);

  int subdiv() const { return subdiv_; }
  int size() const { return static_cast<int>(order_.size()); }
  int next() const { return Before(size() - 1); }
  int previous() const { return Before(1); }

  // The rank that is `places` before this one; this one itself for 0 and
  // size(). REQUIRES: 0 <= places <= size().
  int Before(int places) const {
    const int index = position_ - places;
    return order_[index < 0 ? index + size() : index];
  }

  // This ring's piece of the block of that rank.
  int ChunkBefore(int places) const {
    return Before(places) * num_subdivs_ + subdiv_;
  }

 private:
  const int subdiv_;
  const int num_subdivs_;
  const std::vector<int> order_;
  const int position_;
};

// A schedule that has a ring for each subdivision. The buffer, or the larger
// one, is a block for each rank, and each block a chunk for each ring.
// `add_ring` adds what the request's rank does in one of them.
Schedule PlanRings(
    const PlanRequest& request,
    absl::FunctionRef<void(const Ring& ring, ScheduleBuilder& builder)>
        add_ring);

// With more bytes per chunk, rings are subdivided: transfers of one piece then
// overlap with reductions of another.
inline constexpr int64_t kMaxRingChunkBytes = int64_t{4} << 20;

// The fewest subdivisions of a ring such that a chunk, bytes / (ranks *
// subdivisions), is at most kMaxRingChunkBytes; but no more than
// max_subdivs_per_device times the average number of devices per task, where 0
// stands for 2, or for one subdivision in all where steps are launches, and -1
// for one in all, and than a request may give (kMaxSubdivisions, kMaxChunks).
// Their offsets are spread over the devices of a task, every second ring runs
// backwards: 0 -2 4 -6.
std::vector<int> DefaultSubdivisions(const SubdivisionRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_SUBDIVISION_H_
