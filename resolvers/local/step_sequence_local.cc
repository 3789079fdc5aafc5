#include "resolvers/local/step_sequence_local.h"

namespace tutti {

int64_t DrawStepId(Random& random) {
  return static_cast<int64_t>(random.Next()) & kMaxStepId;
}

int64_t NextSteps::Get(int64_t graph_key) const {
  MutexLock lock(&mu_);
  const auto found = ids_.find(graph_key);
  return found == ids_.end() ? kInvalidStepId : found->second;
}

void NextSteps::Set(int64_t graph_key, int64_t step_id) {
  MutexLock lock(&mu_);
  ids_[graph_key] = step_id;
}

void NextSteps::Retire(int64_t graph_key, int64_t step_id) {
  MutexLock lock(&mu_);
  const auto found = ids_.find(graph_key);
  if (found == ids_.end()) return;
  if (found->second == step_id) {
    found->second = (step_id + 1) & kMaxStepId;
  } else {
    ids_.erase(found);
  }
}

void NextSteps::Forget(int64_t graph_key) {
  MutexLock lock(&mu_);
  ids_.erase(graph_key);
}

}  // namespace tutti
