#ifndef TUTTI_SCHEDULE_ENGINE_BOUND_SCHEDULE_H_
#define TUTTI_SCHEDULE_ENGINE_BOUND_SCHEDULE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "schedule/chunk_map.h"
#include "schedule/compiled_schedule.h"
#include "schedule/engine/scratch_pool.h"
#include "schedule/ranks_in_keys.h"
#include "tutti/params.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {

// A compiled schedule with what it needs to know of one member's buffers.
// Immutable; serves all executions of an instance.
class BoundSchedule {
 public:
  BoundSchedule(std::shared_ptr<const CompiledSchedule> schedule,
                const CollectiveParams& params);

  const CompiledSchedule& schedule() const { return *schedule_; }
  const ChunkMap& chunks() const { return chunks_; }
  DType dtype() const { return dtype_; }

  // Of a member, in the keys of transfers.
  int RankInKeys(int rank) const {
    return ranks_ == nullptr || ranks_->ranks.empty()
               ? rank
               : ranks_->ranks[static_cast<size_t>(rank)];
  }

  // All scratch is one allocation.
  size_t scratch_bytes() const { return scratch_bytes_; }

  // Where runs take it from, and give it back. Null where it is small, or
  // nobody keeps it.
  ScratchPool* scratch_pool() const { return scratch_pool_.get(); }
  size_t ScratchOffset(const Slot& slot) const {
    return scratch_offsets_.at({slot.chunk, slot.bank});
  }

 private:
  const std::shared_ptr<const CompiledSchedule> schedule_;
  const ChunkMap chunks_;
  const DType dtype_;
  const std::shared_ptr<const RanksInKeys> ranks_;  // Null: their own.
  absl::flat_hash_map<std::pair<int, int>, size_t> scratch_offsets_;
  size_t scratch_bytes_ = 0;
  std::shared_ptr<ScratchPool> scratch_pool_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_BOUND_SCHEDULE_H_
