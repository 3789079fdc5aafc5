#include "remote/served_requests.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

absl::Status CheckRecvRequest(const ClusterSpec& cluster,
                              const CollGroupParams& group,
                              const ControlCaller& caller, const BufKey& key) {
  const auto& members = group.members;
  const auto is_rank = [&members](int32_t rank) {
    return rank >= 0 && static_cast<size_t>(rank) < members.size();
  };
  if (!is_rank(key.from) || !is_rank(key.to)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToString(key), ": the group has ", members.size(), " ranks"));
  }
  const DeviceAttributes& receiver = members[key.to].device;
  const DeviceAttributes& sender = members[key.from].device;
  const auto receiving_task = cluster.TaskOf(receiver.name);
  const auto sending_task = cluster.TaskOf(sender.name);
  if (!receiving_task.ok() || *receiving_task != caller.task) {
    return absl::PermissionDeniedError(absl::StrCat(
        ToString(key), ": rank ", key.to, " is ", receiver.name.ToString(),
        ", but ", cluster.Label(caller.task), " asks"));
  }
  if (receiver.incarnation != caller.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        ToString(key), ": ", cluster.Label(caller.task),
        " restarted: the group has its incarnation ", receiver.incarnation,
        ", but incarnation ", caller.incarnation, " asks"));
  }
  if (!sending_task.ok() || *sending_task != cluster.this_task) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToString(key), ": rank ", key.from, " is ", sender.name.ToString(),
        ", not in ", cluster.Label(cluster.this_task)));
  }
  return absl::OkStatus();
}

}  // namespace

void ServedRequest::OnDelivery(int32_t /*id*/, absl::Status status,
                               Delivery delivery) {
  const std::shared_ptr<ServedRequest> self = std::move(self_);
  const std::shared_ptr<ServedRequests> service = std::move(service_);
  if (service != nullptr) service->CountOut(caller.task);
  OnAnswer(std::move(status), delivery);
}

void ServedRequests::Serve(const std::shared_ptr<const void>& owner,
                           const RequestPtr& request) {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    status = CountIn(request->caller.task);
    request->is_early_ = status.ok();
  }
  if (!status.ok()) return request->OnDelivery(0, std::move(status), {});
  request->service_ = std::shared_ptr<ServedRequests>(owner, this);
  request->self_ = request;
  Advance(request);
  AwaitGroup(request);
}

absl::Status ServedRequests::CountIn(int task) {
  size_t& num_waiting = num_of_task_[task];
  if (num_waiting >= options_.max_waiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                     " already has ", num_waiting, " requests of ",
                     options_.cluster.Label(task), " that wait for data"));
  }
  ++num_waiting;
  return absl::OkStatus();
}

void ServedRequests::CountOut(int task) {
  MutexLock lock(&mu_);
  --num_of_task_[task];
}

// Advances an early request if its group is known by now.
void ServedRequests::Advance(const RequestPtr& request) {
  const BufKey& key = request->key;
  const auto group = options_.groups->Find(key.exec.group, key.exec.generation);
  absl::Status status = group.ok() ? CheckRecvRequest(options_.cluster, **group,
                                                      request->caller, key)
                                   : group.status();
  if (absl::IsNotFound(status) || !EndEarly(request)) return;
  if (!status.ok()) return request->OnDelivery(0, std::move(status), {});
  rendezvous_.Consume(key, request->recv);
  // The request, or its group, may have ended before it waited.
  std::optional<absl::Status> ended;
  {
    MutexLock lock(&mu_);
    ended = request->withdrawn_;
  }
  if (!ended.has_value() && (*group)->cancellation->cancelled()) {
    ended = options_.groups->Find(key.exec.group, key.exec.generation).status();
  }
  if (ended.has_value() && !ended->ok()) {
    rendezvous_.CancelRecv(key, request.get(), *std::move(ended));
  }
}

// Keeps a request that stayed early, for a limited time.
void ServedRequests::AwaitGroup(const RequestPtr& request) {
  std::shared_ptr<ServedRequests> self;
  {
    MutexLock lock(&mu_);
    if (!request->is_early_) return;
    early_.insert(request);
    self = request->service_;
  }
  Advance(request);  // Its group may have come meanwhile.
  Clock& clock = *options_.clock;
  const Clock::AlarmId alarm =
      clock.CallAt(clock.Now() + options_.early_lifetime, [self, request] {
        if (!self->EndEarly(request)) return;
        const Options& options = self->options_;
        request->OnDelivery(
            0,
            absl::NotFoundError(
                absl::StrCat(ToString(request->key), ": ",
                             options.cluster.Label(options.cluster.this_task),
                             " has not heard of this group for ",
                             absl::FormatDuration(options.early_lifetime))),
            {});
      });
  {
    MutexLock lock(&mu_);
    if (request->is_early_) {
      request->alarm_ = alarm;
      return;
    }
  }
  clock.Cancel(alarm);
}

// Returns false if the request is not early.
bool ServedRequests::EndEarly(const RequestPtr& request) {
  Clock::AlarmId alarm = 0;
  {
    MutexLock lock(&mu_);
    if (!request->is_early_) return false;
    request->is_early_ = false;
    early_.erase(request);
    alarm = std::exchange(request->alarm_, 0);
  }
  if (alarm != 0) options_.clock->Cancel(alarm);
  return true;
}

void ServedRequests::Withdraw(const RequestPtr& request,
                              const absl::Status& reason) {
  if (EndEarly(request)) return request->OnDelivery(0, reason, {});
  {
    MutexLock lock(&mu_);
    request->withdrawn_ = reason;  // Seen by Advance(), if still under way.
  }
  rendezvous_.CancelRecv(request->key, request.get(), reason);
}

void ServedRequests::OnGroupChange(GroupKey group) {
  std::vector<RequestPtr> early;
  {
    MutexLock lock(&mu_);
    for (const RequestPtr& request : early_) {
      if (request->key.exec.group == group) early.push_back(request);
    }
  }
  for (const RequestPtr& request : early) Advance(request);
  const uint64_t ended = options_.groups->EndedGeneration(group);
  if (ended == 0) return;
  rendezvous_.CancelRecvs(
      [group, ended](const BufKey& key, const Receiver* receiver) {
        return key.exec.group == group && key.exec.generation <= ended &&
               dynamic_cast<const ServedRequest*>(receiver) != nullptr;
      },
      [this](const BufKey& key) {
        return options_.groups->Find(key.exec.group, key.exec.generation)
            .status();
      });
}

size_t ServedRequests::size() const {
  MutexLock lock(&mu_);
  size_t size = 0;
  for (const auto& [task, num_waiting] : num_of_task_) size += num_waiting;
  return size;
}

}  // namespace tutti
