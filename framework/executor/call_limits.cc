// Limits of a call: what ends it from outside, and the words for what it then
// still waited for.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "framework/base/rank_list.h"
#include "framework/executor/call.h"
#include "framework/peer/message_key.h"

namespace tutti {
namespace {

// Rounds to milliseconds, or to microseconds below one millisecond.
std::string Rounded(absl::Duration duration) {
  const absl::Duration unit = duration < absl::Milliseconds(1)
                                  ? absl::Microseconds(1)
                                  : absl::Milliseconds(1);
  return absl::FormatDuration(absl::Trunc(duration, unit));
}

absl::Status WithNote(const absl::Status& reason, absl::string_view note) {
  absl::Status status(reason.code(), absl::StrCat(reason.message(), note));
  reason.ForEachPayload(
      [&status](absl::string_view type_url, const absl::Cord& payload) {
        status.SetPayload(type_url, payload);
      });
  return status;
}

std::string FromAny(GroupKey group, int tag) {
  return absl::StrCat("recv from any member of group ", group, ", tag ", tag);
}

}  // namespace

// Limits of a call, and what an alarm or a reason needs that comes late.
struct Call::Watch {
  void OnDeadline();
  void OnCancelled(const absl::Status& reason);

  const std::shared_ptr<CollectiveExecutor> executor;
  const std::shared_ptr<Execution> execution;
  const std::shared_ptr<const CollectiveRequest> request;
  const std::shared_ptr<Cancellation> cancellation;
  const std::string caller;  // The device may be gone then.
  const absl::Time start = executor->environment().clock->Now();
  Clock::AlarmId alarm = 0;
  Cancellation::WatchId cancellation_watch = 0;
  Mutex mu;
  const Call* call ABSL_GUARDED_BY(mu) = nullptr;  // Null once it has ended.
};

void Call::Watch::OnDeadline() {
  std::string name, wait;
  {
    MutexLock lock(&mu);
    if (call == nullptr) return;
    name = call->DescribeName(*request);
    wait = call->DescribeWait(*request);
  }
  executor->core().FailExecution(
      *execution,
      absl::DeadlineExceededError(absl::StrCat(
          name, ", called by ", caller, ": the deadline passed after ",
          Rounded(executor->environment().clock->Now() - start), ", ", wait)));
}

void Call::Watch::OnCancelled(const absl::Status& reason) {
  {
    MutexLock lock(&mu);
    if (call == nullptr) return;
  }
  executor->core().FailExecution(  // Names the caller to the other members.
      *execution,
      WithNote(reason, absl::StrCat(" (", caller, " cancelled its call)")));
}

void Call::WatchLimits(const CollectiveArgs& args) {
  watch_ = std::shared_ptr<Watch>(
      new Watch{.executor = context_.executor->shared_from_this(),
                .execution = ExecutionTable::Share(*context_.execution),
                .request = args.request,
                .cancellation = args.cancellation,
                .caller = args.device->full_name(),
                .call = this});
  if (args.cancellation != nullptr) {
    watch_->cancellation_watch =
        args.cancellation->Watch([watch = watch_](const absl::Status& reason) {
          watch->OnCancelled(reason);
        });
  }
  if (args.deadline == absl::InfiniteFuture()) return;
  if (watch_->start >= args.deadline) return watch_->OnDeadline();
  watch_->alarm = watch_->executor->environment().clock->CallAt(
      args.deadline, [watch = watch_] { watch->OnDeadline(); });
}

void Call::StopWatching() {
  {
    MutexLock lock(&watch_->mu);
    watch_->call = nullptr;
  }
  if (watch_->alarm != 0) {
    watch_->executor->environment().clock->Cancel(watch_->alarm);
  }
  if (watch_->cancellation_watch != 0) {
    watch_->cancellation->Unwatch(watch_->cancellation_watch);
  }
  watch_ = nullptr;
}

std::string Call::DescribeName(const CollectiveRequest& request) const {
  if (kind_ != Kind::kMessage) {
    return absl::StrCat(Name(TypeOf(request.op)), " of group ",
                        request.group_key, ", instance ", request.instance_key);
  }
  const MessagePath path = PathOf(request.instance_key);
  if (path.from == path.to) return FromAny(request.group_key, path.tag);
  const bool sends = request.rank == 0;
  return absl::StrCat(sends ? "send to rank " : "recv from rank ",
                      sends ? path.to : path.from, ", tag ", path.tag,
                      " of group ", request.group_key);
}

// Names a receive that ends without a message, unless its own deadline did.
absl::Status Call::DescribeEnd(const AnyReceive& receive,
                               const absl::Status& reason) {
  const std::string name = FromAny(receive.args.group->key, receive.args.tag);
  if (absl::StrContains(reason.message(), name)) return reason;
  const absl::Duration waited =
      receive.executor->environment().clock->Now() - receive.start;
  return WithNote(reason, absl::StrCat("; ", name, ", called by ",
                                       receive.args.device->full_name(),
                                       ", had waited ", Rounded(waited)));
}

// Names the other side of a message, and says how far it is.
std::string Call::DescribeUnmatched(const CollectiveRequest& request) const {
  const CollectiveParams& params = *settled_->params;
  if (params.group->size() == 1) return "no member had sent a message for it";
  const int other = 1 - request.rank;
  const bool sends = request.rank == 0;
  const MessagePath path = PathOf(request.instance_key);
  const std::string name = params.group->members[other].device.name.ToString();
  const std::vector<std::string> joined =
      table().JoinedNames(*context_.execution);
  const bool came = absl::c_linear_search(joined, name);
  const uint64_t number = context_.execution->number - kMessages;
  const bool is_local = params.task->is_local[other];
  return absl::StrCat("rank ", sends ? path.to : path.from, " (", name,
                      ") had ", sends ? "received " : "sent ",
                      came ? "part of it"
                      : number == 0
                          ? "nothing with this tag"
                          : absl::StrCat("message ", number - 1,
                                         " with this tag and not the next"),
                      came || is_local ? "" : ", or not all of it");
}

std::string Call::DescribeWait(const CollectiveRequest& request) const {
  if (kind_ == Kind::kMessage) return DescribeUnmatched(request);
  switch (phase_.load()) {
    case Phase::kResolve: {
      const std::string waiting =
          core().options().param_resolver->DescribeWaiting(request);
      return waiting.empty() ? "before it began" : waiting;
    }
    case Phase::kDependencies:
      return absl::StrCat("dependencies: ", DescribeNotLaunched());
    case Phase::kRun:
      break;
  }
  return absl::StrCat("run phase: ", DescribeAbsent());
}

std::string Call::DescribeNotLaunched() const {
  std::vector<InstanceId> awaited;
  for (const InstanceId& id :
       settled_->params->instance->impl_details.dependencies) {
    if (!core().executions().HasLaunched(id, context_.execution->number)) {
      awaited.push_back(id);
    }
  }
  if (awaited.empty()) return "just launched";
  return absl::StrCat(ShortList(awaited.size(),
                                [&](size_t i) {
                                  return absl::StrCat(
                                      "group ", awaited[i].group_key,
                                      ", instance ", awaited[i].instance_key);
                                }),
                      " had not been launched");
}

std::string Call::DescribeAbsent() const {
  const CollectiveParams& params = *context_.params;
  const std::vector<std::string> joined =
      core().executions().JoinedNames(*context_.execution);
  const absl::flat_hash_set<std::string> present(joined.begin(), joined.end());
  std::vector<std::string> absent;
  for (int rank = 0; rank < params.group->size(); ++rank) {
    const std::string name = params.group->members[rank].device.name.ToString();
    if (!params.task->is_local[rank] || present.contains(name)) continue;
    absent.push_back(absl::StrCat("rank ", rank, " (", name, ")"));
  }
  const std::string awaited = context_.executor->peers().DescribeWaiting(
      *params.group, context_.exec_key);
  if (absent.empty()) {
    return absl::StrCat("all members of this process had arrived",
                        awaited.empty() ? "" : ", who wait for ", awaited);
  }
  return absl::StrCat(
      ShortList(absent.size(), [&](size_t i) { return absent[i]; }),
      " had not arrived", awaited.empty() ? "" : "; the others wait for ",
      awaited);
}

}  // namespace tutti
