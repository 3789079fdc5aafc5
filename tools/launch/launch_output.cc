#include "tools/launch/launch_output.h"

#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/rank_list.h"

namespace tutti {
namespace {

constexpr char kWaitsFor[] = " waits for ";

using Stream = ProcessGroup::Stream;

// Limit of the error text that is repeated at the end.
constexpr size_t kMaxErrorBytes = 4096;

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

void LaunchOutput::Add(int task, Stream stream, absl::string_view piece) {
  if (stream == Stream::kErr && IsWaitingNote(piece)) {
    if (!waiting_.has_value()) waiting_ = task;
    if (*waiting_ != task) return;
  }
  Print(task, stream, piece);
  if (stream == Stream::kErr) Remember(task, piece);
}

void LaunchOutput::Finish() {
  std::optional<int>& open = open_[static_cast<int>(Stream::kErr)];
  if (open.has_value()) console_.err << "\n" << std::flush;
  open.reset();
}

const std::string& LaunchOutput::ErrorOf(int task) const {
  const Task& one = tasks_[task];
  return one.last_error.empty() ? one.last_line : one.last_error;
}

void LaunchOutput::Print(int task, Stream stream, absl::string_view piece) {
  std::ostream& to = stream == Stream::kOut ? console_.out : console_.err;
  std::optional<int>& open = open_[static_cast<int>(stream)];
  if (open.has_value() && *open != task) {
    to << "\n";
    open.reset();
  }
  const bool is_result = task == 0 && stream == Stream::kOut;
  if (!open.has_value() && !is_result) to << "[" << task << "] ";
  to << piece << std::flush;
  open = task;
  if (absl::EndsWith(piece, "\n")) open.reset();
}

void LaunchOutput::Remember(int task, absl::string_view line) {
  line = absl::StripAsciiWhitespace(line.substr(0, kMaxErrorBytes));
  if (line.empty()) return;
  const bool is_error =
      absl::ConsumePrefix(&line, "tutti: ") && !absl::StartsWith(line, "note:");
  Task& one = tasks_[task];
  (is_error ? one.last_error : one.last_line) = std::string(line);
}

}  // namespace tutti
