#include "remote/mpi/messages/mpi_exchange.h"

#include <array>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace tutti {

MpiExchange::Waiter MpiExchange::Find(const ExecKey& key) const {
  MutexLock lock(&mu_);
  const auto found = parts_.find(key);
  return found == parts_.end() ? Waiter() : found->second;
}

// REQUIRES: the part is there.
MpiPartPtr MpiExchange::Take(const ExecKey& key) {
  MutexLock lock(&mu_);
  return std::move(parts_.extract(key).mapped().part);
}

absl::Status MpiExchange::WhyNot(const MpiPart& part) const {
  if (Find(part.key()).part != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat(ToString(part.key()), ": is waiting to begin"));
  }
  const auto gone = gone_.find(OtherOf(part));
  return gone == gone_.end() ? absl::OkStatus() : gone->second;
}

void MpiExchange::Add(const MpiPartPtr& part) {
  const absl::Status why_not = WhyNot(*part);
  if (!why_not.ok()) return part->Refuse(why_not);
  const int other = OtherOf(*part);
  options_.send(other, {.kind = MpiNote::Kind::kInput,
                        .key = part->key(),
                        .carried = std::string(part->carried())});
  const auto input = inputs_.extract({other, part->key()});
  if (!input.empty()) return Begin(*part, input.mapped());
  MutexLock lock(&mu_);
  parts_[part->key()].part = part;
}

void MpiExchange::Withdraw(const ExecKey& key, const absl::Status& why) {
  const auto [part, withdrawn] = Find(key);
  if (part == nullptr || !withdrawn.ok()) return;
  {
    MutexLock lock(&mu_);
    parts_[key].withdrawn = why;
  }
  options_.send(OtherOf(*part), {.kind = MpiNote::Kind::kTakeBack, .key = key});
}

void MpiExchange::OnNote(int task, const MpiNote& note) {
  switch (note.kind) {
    case MpiNote::Kind::kInput:
      return OnInput(task, note);
    case MpiNote::Kind::kTakeBack:
      return OnTakeBack(task, note.key);
    case MpiNote::Kind::kTakenBack:
      return OnTakenBack(task, note.key);
    default:
      return;
  }
}

void MpiExchange::OnInput(int task, const MpiNote& note) {
  if (gone_.contains(task)) return;
  const MpiPartPtr part = Find(note.key).part;
  if (part != nullptr && OtherOf(*part) == task) {
    return Begin(*Take(note.key), note.carried);
  }
  inputs_.try_emplace({task, note.key}, note.carried);
}

// Answers that the input is taken back, if it is still here. A used input needs
// no answer: its sender will begin. A lost task that goes on gets an answer
// too: it may wait for an input that is never sent.
void MpiExchange::OnTakeBack(int task, const ExecKey& key) {
  if (inputs_.erase({task, key}) == 0 && !gone_.contains(task)) return;
  options_.send(task, {.kind = MpiNote::Kind::kTakenBack, .key = key});
}

void MpiExchange::OnTakenBack(int task, const ExecKey& key) {
  const auto [part, withdrawn] = Find(key);
  if (part == nullptr || withdrawn.ok() || OtherOf(*part) != task) return;
  Take(key)->Refuse(withdrawn);
}

void MpiExchange::Begin(MpiPart& part, absl::string_view input) const {
  std::array<absl::string_view, 2> by_rank = {part.carried(), input};
  if (!is_first(part)) std::swap(by_rank[0], by_rank[1]);
  const absl::StatusOr<std::string> merged = part.Merge(by_rank);
  if (!merged.ok()) return part.Refuse(merged.status());
  part.Begin({.merged = *merged});
}

void MpiExchange::OnGone(int task, const absl::Status& why) {
  if (!gone_.try_emplace(task, why).second) return;
  absl::erase_if(
      inputs_, [task](const auto& entry) { return entry.first.first == task; });
  for (const ExecKey& key : Waiting()) {
    const MpiPartPtr part = Find(key).part;
    if (part != nullptr && OtherOf(*part) == task) Take(key)->Refuse(why);
  }
}

std::vector<ExecKey> MpiExchange::Waiting() const {
  std::vector<ExecKey> keys;
  MutexLock lock(&mu_);
  for (const auto& [key, waiter] : parts_) keys.push_back(key);
  return keys;
}

std::optional<int> MpiExchange::Awaited(const ExecKey& key) const {
  MutexLock lock(&mu_);
  const auto own = parts_.find(key);
  if (own == parts_.end()) return std::nullopt;
  return OtherOf(*own->second.part);
}

}  // namespace tutti
