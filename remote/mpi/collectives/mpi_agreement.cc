#include "remote/mpi/collectives/mpi_agreement.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tutti {

MpiAgreement::Waiter MpiAgreement::Find(const ExecKey& key) const {
  MutexLock lock(&mu_);
  const auto found = parts_.find(key);
  return found == parts_.end() ? Waiter() : found->second;
}

// REQUIRES: the part is there.
MpiAgreement::Waiter MpiAgreement::Take(const ExecKey& key) {
  MutexLock lock(&mu_);
  return std::move(parts_.extract(key).mapped());
}

absl::Status MpiAgreement::WhyNotReady(const MpiPart& part) const {
  if (Find(part.key()).part != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat(ToString(part.key()), ": is waiting to begin"));
  }
  for (const int task : part.tasks()) {
    const auto gone = gone_.find(task);
    if (gone != gone_.end()) return gone->second;
  }
  return absl::OkStatus();
}

void MpiAgreement::AddReady(const MpiPartPtr& part) {
  const absl::Status why_not = WhyNotReady(*part);
  if (!why_not.ok()) return part->Refuse(why_not);
  const ExecKey key = part->key();
  {
    MutexLock lock(&mu_);
    parts_[key].part = part;
  }
  if (leads(*part)) return BeginIfComplete(key);
  Send(part->tasks()[0], {.kind = MpiNote::Kind::kReady,
                          .key = key,
                          .is_in_place = part->is_in_place(),
                          .rows_digest = part->rows_digest(),
                          .carried = std::string(part->carried())});
}

void MpiAgreement::Withdraw(const ExecKey& key, const absl::Status& why) {
  const auto [part, withdrawn] = Find(key);
  if (part == nullptr || !withdrawn.ok()) return;
  if (leads(*part)) return Refuse(key, why);
  {
    MutexLock lock(&mu_);
    parts_[key].withdrawn = why;
  }
  Send(part->tasks()[0], {.kind = MpiNote::Kind::kWithdraw, .key = key});
}

void MpiAgreement::OnNote(int task, const MpiNote& note) {
  const ExecKey& key = note.key;
  const auto [part, withdrawn] = Find(key);
  const bool is_of_leader = part != nullptr && part->tasks()[0] == task;
  switch (note.kind) {
    case MpiNote::Kind::kReady:
      return AddReadyTask(task, note);
    case MpiNote::Kind::kWithdraw:
      return RemoveReadyTask(task, key);
    case MpiNote::Kind::kWithdrawn:
      if (!is_of_leader) return;
      return Refuse(key, withdrawn.ok() && note.code != absl::StatusCode::kOk
                             ? absl::Status(note.code, note.carried)
                             : withdrawn);
    case MpiNote::Kind::kBegin:
    case MpiNote::Kind::kMakeAndBegin:
      if (!is_of_leader) return;
      return Begin(
          key, {.makes_communicator = note.kind == MpiNote::Kind::kMakeAndBegin,
                .any_in_place = note.is_in_place,
                .merged = note.carried});
    case MpiNote::Kind::kRequestPermission:
      return RequestPermission(task, key);
    case MpiNote::Kind::kLeave:
      if (task == 0) OnLeave(key);
      return;
    case MpiNote::Kind::kReturnLeave:
      return ReturnLeave(task);
    default:  // Notes of other protocols.
      return;
  }
}

std::vector<ExecKey> MpiAgreement::Waiting() const {
  std::vector<ExecKey> keys;
  MutexLock lock(&mu_);
  for (const auto& [key, waiter] : parts_) keys.push_back(key);
  return keys;
}

std::optional<std::vector<int>> MpiAgreement::Awaited(
    const ExecKey& key) const {
  MutexLock lock(&mu_);
  const auto own = parts_.find(key);
  if (own == parts_.end()) return std::nullopt;
  const MpiPart& part = *own->second.part;
  if (!leads(part)) return std::vector<int>{part.tasks()[0]};
  absl::flat_hash_set<int> are_ready = {options_.this_task};
  const auto ready = ready_.find(key);
  if (ready != ready_.end()) {
    for (const auto& [task, member] : ready->second.members) {
      are_ready.insert(task);
    }
  }
  std::vector<int> awaited;
  for (const int task : part.tasks()) {
    if (!are_ready.contains(task)) awaited.push_back(task);
  }
  return awaited;
}

void MpiAgreement::Send(int task, const MpiNote& note) {
  if (task == options_.this_task) return OnNote(task, note);
  if (!gone_.contains(task)) options_.send(task, note);
}

void MpiAgreement::Begin(const ExecKey& key, const MpiPart::Order& order) {
  Take(key).part->Begin(order);
}

void MpiAgreement::Refuse(const ExecKey& key, absl::Status why) {
  if (why.ok()) why = absl::CancelledError("withdrawn by the leader");
  Take(key).part->Refuse(why);
}

void MpiAgreement::OnGone(int task, const absl::Status& why) {
  if (!gone_.try_emplace(task, why).second) return;
  for (const ExecKey& key : Waiting()) {
    const MpiPartPtr part = Find(key).part;
    if (part == nullptr) continue;
    const auto& tasks = part->tasks();
    const bool is_member =
        std::find(tasks.begin(), tasks.end(), task) != tasks.end();
    if (is_member && (tasks[0] == task || leads(*part))) Refuse(key, why);
  }
  {
    MutexLock lock(&mu_);
    absl::erase_if(ready_, [task](auto& entry) {
      entry.second.members.erase(task);
      return entry.second.members.empty();
    });
  }
  ReturnLeave(task);
  if (task != 0) return;
  for (auto& [id, group] : led_) {
    for (const ExecKey& key : std::exchange(group.complete, {})) {
      if (Find(key).part != nullptr) Refuse(key, why);
    }
  }
}

// --- Leader ------------------------------------------------------------------

// Marks a task ready. Ignores a lost task that goes on: an execution that waits
// for it never begins.
void MpiAgreement::AddReadyTask(int task, const MpiNote& note) {
  if (gone_.contains(task)) return;
  {
    MutexLock lock(&mu_);
    Ready& ready = ready_[note.key];
    ready.members.try_emplace(task,
                              ReadyMember{note.carried, note.rows_digest});
    ready.any_in_place = ready.any_in_place || note.is_in_place;
  }
  BeginIfComplete(note.key);
}

// Withdraws a task's readiness. A task that is not ready has got "begin", or
// was lost and never gets it. A lost task gets an answer at once: it knows
// whether it has begun.
void MpiAgreement::RemoveReadyTask(int task, const ExecKey& key) {
  if (gone_.contains(task)) {
    return options_.send(task, {.kind = MpiNote::Kind::kWithdrawn, .key = key});
  }
  {
    MutexLock lock(&mu_);
    const auto found = ready_.find(key);
    if (found == ready_.end() || found->second.members.erase(task) == 0) return;
    if (found->second.members.empty()) ready_.erase(found);
  }
  Send(task, {.kind = MpiNote::Kind::kWithdrawn, .key = key});
}

bool MpiAgreement::IsComplete(const ExecKey& key) const {
  MutexLock lock(&mu_);
  const auto own = parts_.find(key);
  if (own == parts_.end() || !leads(*own->second.part)) return false;
  const auto& tasks = own->second.part->tasks();
  if (tasks.size() == 1) return true;
  const auto ready = ready_.find(key);
  if (ready == ready_.end()) return false;
  const auto& are_ready = ready->second.members;
  if (are_ready.size() + 1 < tasks.size()) return false;
  return std::all_of(tasks.begin() + 1, tasks.end(),
                     [&](int task) { return are_ready.contains(task); });
}

void MpiAgreement::BeginIfComplete(const ExecKey& key) {
  if (!IsComplete(key)) return;
  if (!Find(key).part->carried().empty()) return SayBegin(key);
  LedGroup& group = led_[GroupOf(key)];
  if (group.has_communicator) return SayBegin(key);
  const auto gone = gone_.find(0);
  if (gone != gone_.end()) return Refuse(key, gone->second);
  group.complete.push_back(key);
  if (group.complete.size() > 1) return;
  Send(0, {.kind = MpiNote::Kind::kRequestPermission, .key = key});
}

// REQUIRES: there is a communicator, or leave to make it, or all data is
// carried.
void MpiAgreement::SayBegin(const ExecKey& key) {
  MpiPartPtr own;
  Ready others;
  {
    MutexLock lock(&mu_);
    own = std::move(parts_.extract(key).mapped().part);
    auto ready = ready_.extract(key);
    if (!ready.empty()) others = std::move(ready.mapped());
  }
  const absl::Status same_rows = CheckRows(*own, others);
  if (!same_rows.ok()) return SayWithdrawn(*own, same_rows);
  const auto merged = MergeCarried(*own, others);
  if (!merged.ok()) return SayWithdrawn(*own, merged.status());
  const bool makes_communicator =
      own->carried().empty() &&
      !std::exchange(led_[GroupOf(key)].has_communicator, true);
  const MpiNote note = {
      .kind = makes_communicator ? MpiNote::Kind::kMakeAndBegin
                                 : MpiNote::Kind::kBegin,
      .key = key,
      .is_in_place = own->is_in_place() || others.any_in_place,
      .carried = *merged};
  SendToOthers(*own, note);
  own->Begin({.makes_communicator = makes_communicator,
              .any_in_place = note.is_in_place,
              .merged = note.carried});
}

void MpiAgreement::SayWithdrawn(MpiPart& own, const absl::Status& why) {
  const MpiNote note = {.kind = MpiNote::Kind::kWithdrawn,
                        .key = own.key(),
                        .carried = std::string(why.message().substr(
                            0, MpiNote::kMostCarriedBytes)),
                        .code = why.code()};
  SendToOthers(own, note);
  own.Refuse(absl::Status(note.code, note.carried));
}

void MpiAgreement::SendToOthers(const MpiPart& own, const MpiNote& note) {
  const std::vector<int>& tasks = own.tasks();
  for (size_t rank = 1; rank < tasks.size(); ++rank) Send(tasks[rank], note);
}

absl::Status MpiAgreement::CheckRows(const MpiPart& own, const Ready& others) {
  const uint64_t wanted = own.rows_digest();
  for (size_t rank = 1; rank < own.tasks().size(); ++rank) {
    if (others.members.at(own.tasks()[rank]).rows_digest == wanted) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "group ", own.key().group, ", instance ", own.key().instance, ": rank ",
        rank, " gives other rows than rank 0"));
  }
  return absl::OkStatus();
}

// Returns an empty string if no data is carried.
absl::StatusOr<std::string> MpiAgreement::MergeCarried(const MpiPart& own,
                                                       const Ready& others) {
  if (own.carried().empty()) return std::string();
  std::vector<absl::string_view> carried = {own.carried()};
  for (size_t rank = 1; rank < own.tasks().size(); ++rank) {
    carried.push_back(others.members.at(own.tasks()[rank]).carried);
  }
  return own.Merge(carried);
}

// Begins the complete executions. Some members may have withdrawn meanwhile.
void MpiAgreement::OnLeave(const ExecKey& key) {
  const auto found = led_.find(GroupOf(key));
  const MpiNote returned = {.kind = MpiNote::Kind::kReturnLeave, .key = key};
  if (found == led_.end()) return Send(0, returned);
  const auto complete = std::exchange(found->second.complete, {});
  for (const ExecKey& next : complete) {
    if (IsComplete(next)) SayBegin(next);
  }
  Send(0, returned);
}

// --- Task 0 ------------------------------------------------------------------

// Queues a request for leave. Ignores a lost task that goes on: it would never
// return the leave.
void MpiAgreement::RequestPermission(int task, const ExecKey& key) {
  if (gone_.contains(task)) return;
  leaves_.emplace_back(task, key);
  if (leaves_.size() == 1) GiveLeave();
}

void MpiAgreement::GiveLeave() {
  const auto [task, key] = leaves_.front();
  Send(task, {.kind = MpiNote::Kind::kLeave, .key = key});
}

// Takes the leave back. For a task that is gone, also drops its waiting
// requests.
void MpiAgreement::ReturnLeave(int task) {
  if (leaves_.empty()) return;
  const bool had_it = leaves_.front().first == task;
  if (had_it) leaves_.pop_front();
  if (gone_.contains(task)) {
    std::erase_if(leaves_,
                  [task](const auto& leave) { return leave.first == task; });
  }
  if (had_it && !leaves_.empty()) GiveLeave();
}

}  // namespace tutti
