#include "bench/gpu/pending_calls.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"

namespace tutti {

struct PendingCalls::State {
  Mutex mu;
  CondVar changed;
  int64_t last_call ABSL_GUARDED_BY(mu) = 0;
  std::map<int64_t, std::string> pending ABSL_GUARDED_BY(mu);
  absl::Status status ABSL_GUARDED_BY(mu);
};

PendingCalls::PendingCalls() : state_(std::make_shared<State>()) {}

StatusCallback PendingCalls::Add(std::string name) {
  MutexLock lock(&state_->mu);
  const int64_t call = ++state_->last_call;
  state_->pending.emplace(call, std::move(name));
  return [state = state_, call](const absl::Status& status) {
    MutexLock lock(&state->mu);
    if (!status.ok() && state->status.ok()) {
      state->status = absl::Status(
          status.code(),
          absl::StrCat(state->pending[call], ": ", status.message()));
    }
    state->pending.erase(call);
    state->changed.SignalAll();
  };
}

bool PendingCalls::have_ended() const {
  MutexLock lock(&state_->mu);
  return state_->pending.empty();
}

absl::Status PendingCalls::status() const {
  MutexLock lock(&state_->mu);
  return state_->status;
}

std::string PendingCalls::Missing() const {
  MutexLock lock(&state_->mu);
  std::string missing;
  for (const auto& [call, name] : state_->pending) {
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", name);
  }
  return missing;
}

bool PendingCalls::WaitUntil(absl::Time when, Clock& clock) {
  // Shared with the alarm, which may ring after this call.
  const auto is_late = std::make_shared<bool>(false);
  const Clock::AlarmId alarm = clock.CallAt(when, [state = state_, is_late] {
    MutexLock lock(&state->mu);
    *is_late = true;
    state->changed.SignalAll();
  });
  bool have_ended = false;
  {
    MutexLock lock(&state_->mu);
    while (!state_->pending.empty() && !*is_late) {
      state_->changed.Wait(&state_->mu);
    }
    have_ended = state_->pending.empty();
  }
  clock.Cancel(alarm);
  return have_ended;
}

}  // namespace tutti
