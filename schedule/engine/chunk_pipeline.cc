#include "schedule/engine/chunk_pipeline.h"

namespace tutti {

ChunkPipeline::Next ChunkPipeline::Take() {
  Next next;
  MutexLock lock(&mu_);
  if (has_ended_) return next;
  const bool goes_on = !cancellation_.cancelled();
  if (goes_on && !is_meeting_ && num_met_ < num_reduced_) {
    is_meeting_ = true;
    next.to_meet = num_met_;
    ++num_under_way_;
  }
  if (goes_on && !is_reducing_ && num_reduced_ < num_chunks_ &&
      num_reduced_ < num_met_ + 2) {
    is_reducing_ = true;
    next.to_reduce = num_reduced_;
    ++num_under_way_;
  }
  next.ends = num_under_way_ == 0;
  has_ended_ = next.ends;
  return next;
}

void ChunkPipeline::EndReduce() {
  MutexLock lock(&mu_);
  is_reducing_ = false;
  ++num_reduced_;
  --num_under_way_;
}

void ChunkPipeline::EndMeet(bool begins_spread) {
  MutexLock lock(&mu_);
  is_meeting_ = false;
  ++num_met_;
  if (!begins_spread) --num_under_way_;
}

void ChunkPipeline::EndSpread() { EndOther(); }

bool ChunkPipeline::BeginOther() {
  MutexLock lock(&mu_);
  if (has_ended_) return false;
  ++num_under_way_;
  return true;
}

void ChunkPipeline::EndOther() {
  MutexLock lock(&mu_);
  --num_under_way_;
}

}  // namespace tutti
