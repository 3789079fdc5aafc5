#include "resolvers/leader/given_up_executions.h"

#include <iterator>

#include "absl/algorithm/container.h"

namespace tutti {

ExecKey KeyOf(InstanceId instance, CallNumber number) {
  return {.step = number.step_id,
          .group = instance.group_key,
          .instance = instance.instance_key,
          .execution = number.execution};
}

bool GivenUpExecutions::Add(const GivenUp& given_up) {
  const EndScope scope = EndScope::Of(given_up.execution);
  MutexLock lock(&mu_);
  if (!ends_.Add(scope, given_up.reason).has_value()) return false;
  newest_.push_back(given_up);
  if (newest_.size() > max_entries_) {
    ends_.Forget(newest_.front().execution);
    newest_.pop_front();
  }
  return true;
}

std::vector<GivenUp> GivenUpExecutions::OfGroup(GroupKey group) {
  std::vector<GivenUp> found;
  MutexLock lock(&mu_);
  absl::c_copy_if(newest_, std::back_inserter(found),
                  [&](const GivenUp& given_up) {
                    return given_up.execution.group == group;
                  });
  return found;
}

std::vector<GivenUp> GivenUpExecutions::Own() {
  std::vector<GivenUp> found;
  MutexLock lock(&mu_);
  absl::c_copy_if(newest_, std::back_inserter(found),
                  [](const GivenUp& given_up) { return given_up.is_own; });
  return found;
}

void GivenUpExecutions::EndStep(int64_t step_id) {
  MutexLock lock(&mu_);
  ends_.ForgetStep(step_id);
  std::erase_if(newest_, [step_id](const GivenUp& given_up) {
    return given_up.execution.step == step_id;
  });
}

size_t GivenUpExecutions::size() {
  MutexLock lock(&mu_);
  return newest_.size();
}

}  // namespace tutti
