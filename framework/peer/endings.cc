#include "framework/peer/endings.h"

namespace tutti {

EndScope EndScope::Of(ExecKey exec, Level level) {
  if (level < kExecution) exec.instance = exec.execution = 0;
  if (level < kGroup) exec.group = exec.generation = 0;
  if (level < kStep) exec.step = 0;
  return {level, exec};
}

std::optional<absl::Status> Endings::Add(const EndScope& scope,
                                         absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("cancelled");
  MutexLock lock(&mu_);
  const bool is_in_step = scope.level != EndScope::kAll;
  if (is_in_step && forgotten_steps_.Contains(scope.exec.step)) {
    return std::nullopt;
  }
  const absl::Status* const outer = Find(scope.exec, scope.level - 1);
  if (outer != nullptr) reason = *outer;
  if (!ends_.try_emplace(scope, reason).second) return std::nullopt;
  Count();
  return reason;
}

absl::Status Endings::StatusOf(const ExecKey& exec) const {
  if (num_ends_.load(std::memory_order_seq_cst) == 0) return absl::OkStatus();
  MutexLock lock(&mu_);
  const absl::Status* const end = Find(exec, EndScope::kExecution);
  if (end != nullptr) return *end;
  return forgotten_steps_.Contains(exec.step) ? StepHasEndedError(exec.step)
                                              : absl::OkStatus();
}

// Returns the reason of the innermost end around `exec`, from the level
// `innermost` outwards; null if none has ended.
const absl::Status* Endings::Find(const ExecKey& exec, int innermost) const {
  if (ends_.empty()) return nullptr;  // Often: then only steps have ended.
  for (int level = innermost; level >= 0; --level) {
    const auto found =
        ends_.find(EndScope::Of(exec, static_cast<EndScope::Level>(level)));
    if (found != ends_.end()) return &found->second;
  }
  return nullptr;
}

void Endings::Forget(const ExecKey& exec) {
  if (num_ends_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(&mu_);
  ends_.erase(EndScope::Of(exec));
  Count();
}

void Endings::ForgetStep(int64_t step) {
  MutexLock lock(&mu_);
  forgotten_steps_.Add(step);
  absl::erase_if(ends_, [step](const auto& end) {
    const EndScope& scope = end.first;
    return scope.level != EndScope::kAll && scope.exec.step == step;
  });
  Count();
}

void Endings::Count() {
  num_ends_.store(ends_.size() + forgotten_steps_.num_runs(),
                  std::memory_order_seq_cst);
}

}  // namespace tutti
