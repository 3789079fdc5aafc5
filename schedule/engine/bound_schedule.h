#ifndef TUTTI_SCHEDULE_ENGINE_BOUND_SCHEDULE_H_
#define TUTTI_SCHEDULE_ENGINE_BOUND_SCHEDULE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "framework/collective/group_part.h"
#include "schedule/chunk_map.h"
#include "schedule/compiled_schedule.h"
#include "schedule/engine/scratch_pool.h"
#include "tutti/params.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {

// A compiled schedule with the sizes of one member's buffers. Immutable; serves
// all executions of an instance.
class BoundSchedule {
 public:
  BoundSchedule(std::shared_ptr<const CompiledSchedule> schedule,
                const CollectiveParams& params);

  const CompiledSchedule& schedule() const { return *schedule_; }
  const ChunkMap& chunks() const { return chunks_; }
  DType dtype() const { return dtype_; }

  // Returns the rank of a member in the keys of transfers.
  int RankInKeys(int rank) const {
    return ranks_ == nullptr || ranks_->ranks.empty()
               ? rank
               : ranks_->ranks[static_cast<size_t>(rank)];
  }

  // Size of all scratch, which is one allocation.
  size_t scratch_bytes() const { return scratch_bytes_; }

  // Pool from which runs take scratch and to which they return it. Null if the
  // scratch is small or is not kept.
  ScratchPool* scratch_pool() const { return scratch_pool_.get(); }

  // REQUIRES: the slot is in the schedule's scratch.
  size_t ScratchOffset(const Slot& slot) const;

 private:
  size_t BytesOf(const Slot& slot) const;

  const std::shared_ptr<const CompiledSchedule> schedule_;
  const ChunkMap chunks_;
  const DType dtype_;
  const std::shared_ptr<const RanksInKeys> ranks_;  // Null: ranks of the group.
  std::vector<size_t> scratch_offsets_;             // Of schedule().scratch().
  size_t scratch_bytes_ = 0;
  std::shared_ptr<ScratchPool> scratch_pool_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_BOUND_SCHEDULE_H_
