#include "resolvers/step_sequence_local.h"

#include <utility>

#include "absl/status/status.h"

namespace tutti {
namespace {

// Ids have 56 bits, as in TensorFlow, which leaves runtimes some to tag them.
constexpr int64_t kStepIdMask = (int64_t{1} << 56) - 1;

}  // namespace

int64_t StepSequenceLocal::NextStepId(int64_t graph_key) {
  MutexLock lock(&mu_);
  const auto found = next_ids_.find(graph_key);
  return found == next_ids_.end() ? kInvalidStepId : found->second;
}

void StepSequenceLocal::RefreshStepIdSequenceAsync(int64_t graph_key,
                                                   StatusCallback done) {
  const auto id = static_cast<int64_t>(random_->Next()) & kStepIdMask;
  {
    MutexLock lock(&mu_);
    next_ids_[graph_key] = id;
  }
  std::move(done)(absl::OkStatus());
}

void StepSequenceLocal::RetireStepId(int64_t graph_key, int64_t step_id) {
  MutexLock lock(&mu_);
  const auto found = next_ids_.find(graph_key);
  if (found == next_ids_.end()) return;
  if (found->second == step_id) {
    found->second = (step_id + 1) & kStepIdMask;
  } else {
    next_ids_.erase(found);
  }
}

void StepSequenceLocal::ForgetGraph(int64_t graph_key) {
  MutexLock lock(&mu_);
  next_ids_.erase(graph_key);
}

}  // namespace tutti
