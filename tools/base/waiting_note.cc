#include "tools/base/waiting_note.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"

namespace tutti {
namespace {

constexpr char kWaitsFor[] = " waits for ";

}  // namespace

bool IsWaitingNote(absl::string_view line) {
  return absl::StartsWith(line, "tutti: task ") &&
         absl::StrContains(line, kWaitsFor);
}

std::shared_ptr<WaitingNote> WaitingNote::Create(const ClusterSpec& cluster,
                                                 absl::Duration start_timeout,
                                                 Clock* clock,
                                                 const Console& console) {
  const std::shared_ptr<WaitingNote> note(
      new WaitingNote(cluster, start_timeout, clock, console));
  note->SayAfter(DefaultTime("start note"));
  return note;
}

void WaitingNote::SetMissing(const std::vector<int>& tasks) {
  MutexLock lock(&mu_);
  missing_ = tasks;
}

void WaitingNote::SayAfter(absl::Duration delay) {
  clock_->CallAt(clock_->Now() + delay, [weak_self = weak_from_this()] {
    if (const auto self = weak_self.lock()) self->Say();
  });
}

void WaitingNote::Say() {
  std::vector<std::string> missing;
  {
    MutexLock lock(&mu_);
    for (int task : missing_) missing.push_back(cluster_.Label(task));
  }
  if (missing.empty()) return;
  console_.err << absl::StrCat("tutti: ", cluster_.Label(cluster_.this_task),
                               kWaitsFor,
                               ShortList(missing.size(),
                                         [&](size_t i) { return missing[i]; }),
                               "; --start-timeout is ",
                               absl::ToDoubleSeconds(start_timeout_), " s\n")
               << std::flush;
  SayAfter(DefaultTime("start notes"));
}

}  // namespace tutti
