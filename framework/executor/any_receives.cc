#include "framework/executor/any_receives.h"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "framework/base/callbacks.h"
#include "framework/executor/executor_core.h"
#include "framework/peer/message_key.h"
#include "tutti/params.h"

namespace tutti {

// Senders to one member under one tag, and its open receives from any of them.
// Announcements keep it; it uses the core only while a receive is open, which
// keeps the executor, or when the core calls.
class AnyReceives::Senders : public std::enable_shared_from_this<Senders> {
 public:
  Senders(const AnyReceive& first, ExecutorCore& core)
      : core_(core),
        group_(first.args.group),
        device_(first.args.device),
        rank_(first.rank),
        tag_(first.args.tag) {
    for (int rank = 0; rank < group_->size(); ++rank) {
      if (rank != rank_) idle_ranks_.push_back(rank);
    }
  }

  void Add(std::shared_ptr<AnyReceive> receive) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<std::shared_ptr<AnyReceive>> open() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return {open_.begin(), open_.end()};
  }
  void EndAnnouncements(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void End(const std::shared_ptr<AnyReceive>& receive,
           const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);
  void OnAnswer(const std::shared_ptr<Announcement>& announcement)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Advance() ABSL_LOCKS_EXCLUDED(mu_);
  void AdvanceOnce() ABSL_LOCKS_EXCLUDED(mu_);
  bool Take(const Announcement& announcement, AnyReceive& receive)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<Announcement>> Announce(
      int from, std::vector<std::unique_ptr<TableEntries::Forgotten>>* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ExecutorCore& core_;
  const std::shared_ptr<const CollGroupParams> group_;
  Device* const device_;
  const int rank_;
  const int tag_;
  RunAgain advances_;
  Mutex mu_;
  std::deque<std::shared_ptr<AnyReceive>> open_ ABSL_GUARDED_BY(mu_);

  // Each sender is in one of the three.
  std::vector<int> idle_ranks_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<std::shared_ptr<Announcement>> requested_
      ABSL_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<Announcement>> answered_ ABSL_GUARDED_BY(mu_);
};

void AnyReceives::Senders::Add(std::shared_ptr<AnyReceive> receive) {
  receive->watch = receive->execution->cancellation.Watch(
      [self = shared_from_this(), receive](const absl::Status& reason) {
        self->End(receive, reason);
      });
  bool is_over = false;
  {
    MutexLock lock(&mu_);
    is_over = receive->is_over;
    receive->is_added = true;
    if (!is_over) open_.push_back(receive);
  }
  if (is_over) return std::move(receive->end_wait)(receive->end);
  // The step may have ended before the receive was open.
  if (core_.aborted().cancelled()) {
    core_.FailExecution(*receive->execution, core_.aborted().status());
  }
  Advance();
}

// Ends an open receive, or tells Add() that it never opens.
void AnyReceives::Senders::End(const std::shared_ptr<AnyReceive>& receive,
                               const absl::Status& reason) {
  {
    MutexLock lock(&mu_);
    if (!receive->is_added) {
      receive->end = reason;
      receive->is_over = true;
      return;
    }
    if (std::erase(open_, receive) == 0) return;  // It has a message.
  }
  FinishOnTrampoline(std::move(receive->end_wait), reason);
}

void AnyReceives::Senders::OnAnswer(
    const std::shared_ptr<Announcement>& announcement) {
  {
    MutexLock lock(&mu_);
    requested_.erase(announcement);
    // Without an open receive, a broken request is no end of the message.
    if (open_.empty() && !announcement->answer().ok()) {
      idle_ranks_.push_back(announcement->key.from);
    } else {
      answered_.push_back(announcement);
    }
  }
  Advance();
}

// Runs on one thread at a time: an answer may come while it is requested, and a
// call may follow from the end of another. Neither deepens the stack.
void AnyReceives::Senders::Advance() {
  const auto self = shared_from_this();
  advances_.Run([this] { AdvanceOnce(); });
}

// Gives the answered senders to the oldest receives. If some stay open,
// requests the announcement of each sender's next message.
void AnyReceives::Senders::AdvanceOnce() {
  std::shared_ptr<CollectiveExecutor> executor;
  std::vector<std::shared_ptr<AnyReceive>> ready;
  std::vector<std::shared_ptr<Announcement>> announcements;
  std::vector<std::unique_ptr<TableEntries::Forgotten>> dropped;
  std::vector<std::shared_ptr<AnyReceive>> failed;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    if (open_.empty()) return;
    executor = open_.front()->executor;
    // The executions of the receives end, with the words of each.
    if (core_.aborted().cancelled() || group_->cancellation->cancelled()) {
      return;
    }
    while (!open_.empty() && !answered_.empty()) {
      const auto announcement = std::move(answered_.front());
      answered_.pop_front();
      idle_ranks_.push_back(announcement->key.from);
      if (!Take(*announcement, *open_.front())) continue;
      ready.push_back(std::move(open_.front()));
      open_.pop_front();
    }
    while (!open_.empty() && !idle_ranks_.empty()) {
      auto announcement = Announce(idle_ranks_.back(), &dropped);
      status = announcement.status();
      if (!status.ok()) {
        failed.assign(open_.begin(), open_.end());
        break;
      }
      idle_ranks_.pop_back();
      announcements.push_back(*std::move(announcement));
    }
  }
  for (const auto& receive : failed) {
    core_.FailExecution(*receive->execution, status);
  }
  for (const auto& receive : ready) {
    receive->execution->cancellation.Unwatch(receive->watch);
    FinishOnTrampoline(std::move(receive->end_wait), receive->end);
  }
  for (const auto& forgotten : dropped) {
    if (forgotten == nullptr) continue;
    for (const ExecKey& key : forgotten->keys) {
      executor->peers().ForgetExecution(key);
    }
  }
  for (const auto& announcement : announcements) {
    const auto from = static_cast<size_t>(announcement->key.from);
    Announcement::Request(announcement, executor->peers(),
                          group_->members[from]);
  }
}

// Makes the receive that of the announced message. Returns false if another
// receive has the message.
bool AnyReceives::Senders::Take(const Announcement& announcement,
                                AnyReceive& receive) {
  receive.args.peer = announcement.key.from;
  auto message =
      MakeMessage(receive.args, /*sends=*/false, *core_.options().devices);
  if (!message.ok()) {
    receive.end = message.status();
    return true;
  }
  receive.joined =
      core_.messages().JoinAnnounced(device_, *message->request, announcement,
                                     [&receive] { return receive.executor; });
  if (receive.joined.execution == nullptr) return false;
  receive.message = *std::move(message);
  receive.joined.status.Update(announcement.answer());
  return true;
}

absl::StatusOr<std::shared_ptr<Announcement>> AnyReceives::Senders::Announce(
    int from, std::vector<std::unique_ptr<TableEntries::Forgotten>>* dropped) {
  const CollectiveRequest request = {
      .group_key = group_->key,
      .group_size = 2,
      .rank = 1,
      .instance_key = KeyOf(MessagePath{from, rank_, tag_})};
  const BufKey key = {.exec = {.generation = group_->generation,
                               .step = core_.options().step_id,
                               .group = group_->key,
                               .instance = request.instance_key},
                      .tag = kAnnouncementTag,
                      .from = from,
                      .to = rank_};
  auto announcement = std::make_shared<Announcement>(
      key, [self = shared_from_this()](const auto& answered) {
        self->OnAnswer(answered);
      });
  absl::Status status;
  dropped->push_back(core_.messages().Announce(device_, request, *group_,
                                               announcement, &status));
  if (!status.ok()) return status;
  requested_.insert(announcement);
  return announcement;
}

void AnyReceives::Senders::EndAnnouncements(const absl::Status& reason) {
  std::vector<std::shared_ptr<Announcement>> requested;
  {
    MutexLock lock(&mu_);
    requested.assign(requested_.begin(), requested_.end());
  }
  for (const auto& announcement : requested) {
    core_.options().peers->CancelExecution(*group_, announcement->key.exec,
                                           reason);
  }
}

AnyReceives::~AnyReceives() = default;

void AnyReceives::Add(std::shared_ptr<AnyReceive> receive) {
  std::shared_ptr<Senders> senders;
  {
    MutexLock lock(&mu_);
    const CollGroupParams& group = *receive->args.group;
    auto& entry = senders_[Key(group.key, group.generation,
                               receive->args.device, receive->args.tag)];
    if (entry == nullptr) entry = std::make_shared<Senders>(*receive, core_);
    senders = entry;
  }
  senders->Add(std::move(receive));
}

void AnyReceives::EndStep(const absl::Status& reason) {
  std::vector<std::shared_ptr<Senders>> all;
  {
    MutexLock lock(&mu_);
    for (const auto& [key, senders] : senders_) all.push_back(senders);
  }
  for (const auto& senders : all) {
    for (const auto& receive : senders->open()) {
      core_.FailExecution(*receive->execution, reason);
    }
  }
}

void AnyReceives::EndGroup(GroupKey group, uint64_t generation,
                           const absl::Status& reason) {
  std::vector<std::shared_ptr<Senders>> ended;
  {
    MutexLock lock(&mu_);
    absl::erase_if(senders_, [&](const auto& entry) {
      if (std::get<0>(entry.first) != group ||
          std::get<1>(entry.first) != generation) {
        return false;
      }
      ended.push_back(entry.second);
      return true;
    });
  }
  for (const auto& senders : ended) senders->EndAnnouncements(reason);
}

}  // namespace tutti
