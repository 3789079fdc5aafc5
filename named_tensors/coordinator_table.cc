#include "named_tensors/coordinator_table.h"

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "named_tensors/tensor_request.h"
#include "tutti/named_tensors.h"

namespace tutti {
namespace {

// Key, and tasks of the ranks if the request gives them.
std::pair<int64_t, std::vector<int>> CoordinatorOf(
    const proto::ControlRequest& request) {
  const auto of = [](const auto& message) {
    return std::pair(
        message.coordinator(),
        std::vector<int>(message.ranks().begin(), message.ranks().end()));
  };
  if (request.has_submit_tensors()) return of(request.submit_tensors());
  return request.has_await_decisions() ? of(request.await_decisions())
                                       : of(request.end_decisions());
}

}  // namespace

absl::Status CoordinatorTable::CheckTasks(int64_t key,
                                          const std::vector<int>& tasks,
                                          int caller) const {
  if (key < 1 || key > kMaxCoordinatorKey) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key of a coordinator is ", key, "; wanted 1 to ",
                     kMaxCoordinatorKey));
  }
  absl::flat_hash_set<int> known;
  for (const int task : tasks) {
    if (task >= 0 && task < cluster_.num_tasks() && known.insert(task).second) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "coordinator ", key, ": task ", task,
        " is listed twice, or none of the ", cluster_.num_tasks(), " tasks"));
  }
  if (known.contains(caller)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("coordinator ", key, ": ", cluster_.Label(caller),
                   " is none of its ranks ", RanksText(tasks)));
}

absl::StatusOr<CoordinatorTable::Entry*> CoordinatorTable::EntryOf(
    int64_t key, const std::vector<int>& tasks, int caller) {
  if (!end_.ok()) return end_;
  if (key != 0 || !tasks.empty()) {
    RETURN_IF_ERROR(CheckTasks(key, tasks, caller));
  }
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    Entry& entry = found->second;
    if (tasks == entry.tasks) return &entry;
    return absl::FailedPreconditionError(absl::StrCat(
        "coordinator ", key, ": ", cluster_.Label(caller), " gave ranks ",
        RanksText(tasks), "; ", cluster_.Label(entry.first_caller), " gave ",
        RanksText(entry.tasks)));
  }
  const auto num_ahead = absl::c_count_if(entries_, [&](const auto& known) {
    return !known.second.is_created && known.second.first_caller == caller;
  });
  if (num_ahead >= kMaxAhead) {
    return absl::ResourceExhaustedError(
        absl::StrCat(cluster_.Label(caller), " uses ", num_ahead,
                     " coordinators that ", cluster_.Label(cluster_.this_task),
                     " has not created; at most ", kMaxAhead));
  }
  Entry& entry = entries_[key];
  entry = {.tasks = tasks, .first_caller = caller};
  const int deciding_task = key == 0 ? 0 : tasks.front();
  if (deciding_task == cluster_.this_task) {
    entry.server = make_server_(key, tasks);
  }
  return &entry;
}

absl::StatusOr<std::shared_ptr<CoordinatorServer>> CoordinatorTable::Create(
    int64_t key, const std::vector<int>& tasks) {
  std::shared_ptr<CoordinatorServer> refused;  // Ranks with other tasks wait.
  absl::Status status;
  {
    MutexLock lock(&mu_);
    const auto entry = EntryOf(key, tasks, cluster_.this_task);
    status = entry.status();
    if (status.ok()) {
      if (!std::exchange((*entry)->is_created, true)) return (*entry)->server;
      return absl::AlreadyExistsError(
          absl::StrCat(cluster_.Label(cluster_.this_task),
                       " has created a coordinator with key ", key, " before"));
    }
    const auto found = entries_.find(key);
    if (absl::IsFailedPrecondition(status) && found != entries_.end() &&
        !std::exchange(found->second.is_created, true)) {
      refused = found->second.server;
    }
  }
  if (refused != nullptr) refused->End(status, DecidedRuns::kCancel);
  return status;
}

absl::StatusOr<std::shared_ptr<CoordinatorServer>> CoordinatorTable::ServerFor(
    int64_t key, const std::vector<int>& tasks, int caller) {
  MutexLock lock(&mu_);
  const auto found = entries_.find(key);
  if (tasks.empty() && found != entries_.end()) {
    if (found->second.server != nullptr) return found->second.server;
  } else if (!tasks.empty() && tasks.front() == cluster_.this_task) {
    ASSIGN_OR_RETURN(Entry* const entry, EntryOf(key, tasks, caller));
    return entry->server;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      cluster_.Label(cluster_.this_task), " does not decide for coordinator ",
      key, tasks.empty() ? "" : " of ranks ",
      tasks.empty() ? "" : RanksText(tasks)));
}

void CoordinatorTable::Set(int64_t key,
                           std::weak_ptr<RankCoordinator> coordinator) {
  MutexLock lock(&mu_);
  entries_[key].coordinator = std::move(coordinator);
}

std::vector<std::shared_ptr<RankCoordinator>> CoordinatorTable::Living(
    std::optional<int64_t> key) {
  std::vector<std::shared_ptr<RankCoordinator>> living;
  MutexLock lock(&mu_);
  for (const auto& [of, entry] : entries_) {
    if (key.value_or(of) != of) continue;
    auto alive = entry.coordinator.lock();
    if (alive != nullptr) living.push_back(std::move(alive));
  }
  return living;
}

void CoordinatorTable::End(const absl::Status& reason) {
  for (const auto& coordinator : Living()) coordinator->Retire(reason);
  std::vector<std::shared_ptr<CoordinatorServer>> servers;
  {
    MutexLock lock(&mu_);
    end_ = reason;
    for (const auto& [key, entry] : entries_) {
      if (entry.server != nullptr) servers.push_back(entry.server);
    }
  }
  for (const auto& server : servers) server->End(reason, DecidedRuns::kCancel);
}

void CoordinatorTable::Handle(const ControlCaller& caller,
                              const proto::ControlRequest& request,
                              std::shared_ptr<Cancellation> withdrawn,
                              ControlDone done) {
  const auto [key, tasks] = CoordinatorOf(request);
  absl::StatusOr<std::shared_ptr<CoordinatorServer>> server =
      ServerFor(key, tasks, caller.task);
  if (!server.ok()) return std::move(done)(server.status());
  (*server)->Handle(caller, request, std::move(withdrawn), std::move(done));
}

}  // namespace tutti
