#include "remote/served_requests.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "remote/caller_check.h"

namespace tutti {

// Request of another task. Early until its group is known here; then it waits
// in the rendezvous. Stays in `requests_` until it is decided: until its
// receiver gets the delivery, or the request has ended and the receiver is
// about to get it.
class ServedRequests::Request : public Receiver,
                                public std::enable_shared_from_this<Request> {
 public:
  Request(std::shared_ptr<ServedRequests> requests, const ControlCaller& caller,
          const BufKey& key, const RecvRequest& recv)
      : caller(caller), key(key), recv(recv), requests_(std::move(requests)) {}

  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery delivery) override {
    const auto self = requests_->Remove(*this);
    recv.receiver->OnDelivery(recv.id, std::move(status), delivery);
  }

  const ControlCaller caller;
  const BufKey key;
  const RecvRequest recv;

  // Guarded by the mutex of ServedRequests.
  bool is_early = true;
  Clock::AlarmId alarm = 0;
  std::optional<absl::Status> ended;

 private:
  const std::shared_ptr<ServedRequests> requests_;
};

void ServedRequests::Serve(const std::shared_ptr<const void>& owner,
                           const ControlCaller& caller, const BufKey& key,
                           const RecvRequest& recv) {
  const auto request = std::make_shared<Request>(
      std::shared_ptr<ServedRequests>(owner, this), caller, key, recv);
  absl::Status status = Add(request);
  if (!status.ok()) {
    return recv.receiver->OnDelivery(recv.id, std::move(status), {});
  }
  Advance(request);
  AwaitGroup(request);
}

absl::Status ServedRequests::Add(const std::shared_ptr<Request>& request) {
  MutexLock lock(&mu_);
  const int task = request->caller.task;
  size_t& num_waiting = num_of_task_[task];
  if (num_waiting >= options_.max_waiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                     " already has ", num_waiting, " requests of ",
                     options_.cluster.Label(task), " that wait for data"));
  }
  if (!requests_.try_emplace(request->key, request).second) {
    return absl::AlreadyExistsError(
        absl::StrCat(ToString(request->key), ": asked for twice"));
  }
  ++num_waiting;
  return absl::OkStatus();
}

// Errors: from CheckRecvRequest() and GroupDirectory::Find().
absl::Status ServedRequests::Check(const Request& request) const {
  const ExecKey& exec = request.key.exec;
  ASSIGN_OR_RETURN(const auto group,
                   options_.groups->Find(exec.group, exec.generation));
  return CheckRecvRequest(options_.cluster, *group, request.caller,
                          request.key);
}

// Advances an early request if its group is known by now.
void ServedRequests::Advance(const std::shared_ptr<Request>& request) {
  absl::Status status = Check(*request);
  if (absl::IsNotFound(status) || !EndEarly(*request)) return;
  if (!status.ok()) return request->OnDelivery(0, std::move(status), {});
  const RecvRequest& recv = request->recv;
  rendezvous_.Consume(request->key, {.num_bytes = recv.num_bytes,
                                     .dtype = recv.dtype,
                                     .incarnation = recv.incarnation,
                                     .receiver = request.get()});
  std::optional<absl::Status> ended;
  {
    MutexLock lock(&mu_);
    ended = request->ended;
  }
  if (ended.has_value()) {
    rendezvous_.CancelRecv(request->key, request.get(), *std::move(ended));
  }
}

// Sets a time limit for a request that stayed early.
void ServedRequests::AwaitGroup(const std::shared_ptr<Request>& request) {
  {
    MutexLock lock(&mu_);
    if (!request->is_early) return;
  }
  Clock& clock = *options_.clock;
  const Clock::AlarmId alarm = clock.CallAt(
      clock.Now() + options_.early_lifetime,
      [this, request] {  // The request keeps this object.
        End(request, absl::NotFoundError(absl::StrCat(
                         ToString(request->key), ": ",
                         options_.cluster.Label(options_.cluster.this_task),
                         " has not heard of this group for ",
                         absl::FormatDuration(options_.early_lifetime))));
      });
  {
    MutexLock lock(&mu_);
    if (request->is_early) {
      request->alarm = alarm;
      return;
    }
  }
  clock.Cancel(alarm);
}

// Returns false if the request is not early.
bool ServedRequests::EndEarly(Request& request) {
  Clock::AlarmId alarm = 0;
  {
    MutexLock lock(&mu_);
    if (!request.is_early) return false;
    request.is_early = false;
    alarm = std::exchange(request.alarm, 0);
  }
  if (alarm != 0) options_.clock->Cancel(alarm);
  return true;
}

void ServedRequests::End(const std::shared_ptr<Request>& request,
                         const absl::Status& reason) {
  if (EndEarly(*request)) return request->OnDelivery(0, reason, {});
  {
    MutexLock lock(&mu_);
    request->ended = reason;  // Seen by Advance(), if it has not got that far.
  }
  rendezvous_.CancelRecv(request->key, request.get(), reason);
}

std::shared_ptr<ServedRequests::Request> ServedRequests::Remove(
    Request& request) {
  std::shared_ptr<Request> kept = request.shared_from_this();
  MutexLock lock(&mu_);
  const auto found = requests_.find(request.key);
  if (found == requests_.end() || found->second != kept) return kept;
  requests_.erase(found);
  --num_of_task_[request.caller.task];
  return kept;
}

void ServedRequests::Withdraw(const BufKey& key, const Receiver* receiver,
                              const absl::Status& reason) {
  std::shared_ptr<Request> request;
  {
    MutexLock lock(&mu_);
    const auto found = requests_.find(key);
    if (found == requests_.end()) return;
    request = found->second;
  }
  if (request->recv.receiver == receiver) End(request, reason);
}

void ServedRequests::OnGroupChange(GroupKey group) {
  std::vector<std::shared_ptr<Request>> concerned;
  {
    MutexLock lock(&mu_);
    for (const auto& [key, request] : requests_) {
      if (key.exec.group == group) concerned.push_back(request);
    }
  }
  for (const auto& request : concerned) {
    Advance(request);
    const absl::Status status = Check(*request);
    if (!status.ok() && !absl::IsNotFound(status)) End(request, status);
  }
}

size_t ServedRequests::size() const {
  MutexLock lock(&mu_);
  return requests_.size();
}

}  // namespace tutti
