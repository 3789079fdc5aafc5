#include "remote/mpi/collectives/mpi_calls.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/control/wire_codec.h"

namespace tutti {
namespace {

// Limits equal to those over gRPC.
constexpr size_t kMaxRequestBytes = size_t{64} << 10;
constexpr size_t kMaxReplyBytes = size_t{4} << 20;

}  // namespace

void MpiCalls::Call(int task, proto::ControlRequest request,
                    ControlCallOptions options, ControlDone done) {
  const size_t size = request.ByteSizeLong();
  if (size > kMaxRequestBytes) {
    return std::move(done)(absl::ResourceExhaustedError(absl::StrCat(
        "a request of ", size, " bytes to ", options_.cluster.Label(task),
        " is larger than ", kMaxRequestBytes)));
  }
  const uint64_t id = ++last_id_;
  const std::weak_ptr<MpiCalls> weak = weak_from_this();
  const auto give_up_later = [weak, id,
                              post = options_.post](absl::Status reason) {
    post([weak, id, reason = std::move(reason)] {
      if (const auto self = weak.lock()) self->GiveUp(id, reason);
    });
  };
  Pending& pending = pending_[id];
  pending.task = task;
  pending.done = std::move(done);
  pending.cancellation = options.cancellation;
  if (options.deadline != absl::InfiniteFuture()) {
    const absl::Duration limit = options.deadline - options_.clock->Now();
    absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("no answer from ", options_.cluster.Label(task), " for ",
                     absl::StrFormat("%.1f s", absl::ToDoubleSeconds(limit))));
    pending.alarm = options_.clock->CallAt(
        options.deadline,
        [give_up_later, late = std::move(late)] { give_up_later(late); });
  }
  if (options.cancellation != nullptr) {
    pending.watch = options.cancellation->Watch(
        [give_up_later](const absl::Status& reason) { give_up_later(reason); });
  }
  proto::MpiMessage message;
  message.mutable_call()->set_id(id);
  *message.mutable_call()->mutable_request() = std::move(request);
  options_.send(task, std::move(message));
}

void MpiCalls::OnAnswer(int task, const proto::MpiAnswer& answer) {
  const auto it = pending_.find(answer.id());
  if (it == pending_.end() || it->second.task != task) return;
  if (answer.has_error()) return End(answer.id(), DecodeError(answer.error()));
  End(answer.id(), answer.reply());
}

void MpiCalls::GiveUp(uint64_t id, const absl::Status& reason) {
  const auto it = pending_.find(id);
  if (it == pending_.end()) return;
  proto::MpiMessage message;
  message.mutable_withdraw()->set_id(id);
  options_.send(it->second.task, std::move(message));
  End(id, reason);
}

void MpiCalls::End(uint64_t id, ControlAnswer answer) {
  const auto it = pending_.find(id);
  if (it == pending_.end()) return;
  Pending pending = std::move(it->second);
  pending_.erase(it);
  if (pending.alarm != 0) options_.clock->Cancel(pending.alarm);
  if (pending.watch != 0) pending.cancellation->Unwatch(pending.watch);
  std::move(pending.done)(std::move(answer));
}

void MpiCalls::OnCall(const ControlCaller& caller, const proto::MpiCall& call,
                      ControlService* service) {
  const int task = caller.task;
  const uint64_t id = call.id();
  auto withdrawn = std::make_shared<Cancellation>();
  if (!served_.emplace(std::pair(task, id), withdrawn).second) return;
  service->Handle(caller, call.request(), std::move(withdrawn),
                  [weak = weak_from_this(), post = options_.post, task,
                   id](ControlAnswer answer) {
                    post([weak, task, id, answer = std::move(answer)] {
                      if (const auto self = weak.lock())
                        self->Answer(task, id, answer);
                    });
                  });
}

void MpiCalls::Refuse(int task, const proto::MpiCall& call,
                      const absl::Status& why) {
  proto::MpiMessage message;
  message.mutable_answer()->set_id(call.id());
  *message.mutable_answer()->mutable_error() = EncodeError(why);
  options_.send(task, std::move(message));
}

// Answers a call, unless its caller has withdrawn it.
void MpiCalls::Answer(int task, uint64_t id, const ControlAnswer& answer) {
  const auto it = served_.find({task, id});
  if (it == served_.end()) return;
  const bool is_wanted = !it->second->cancelled();
  served_.erase(it);
  if (!is_wanted) return;
  proto::MpiMessage message;
  proto::MpiAnswer& text = *message.mutable_answer();
  text.set_id(id);
  if (!answer.ok()) {
    *text.mutable_error() = EncodeError(answer.status());
  } else if (answer->ByteSizeLong() > kMaxReplyBytes) {
    *text.mutable_error() = EncodeError(absl::ResourceExhaustedError(
        absl::StrCat("an answer of ", answer->ByteSizeLong(),
                     " bytes is larger than ", kMaxReplyBytes)));
  } else {
    *text.mutable_reply() = *answer;
  }
  options_.send(task, std::move(message));
}

void MpiCalls::OnWithdraw(int task, const proto::MpiWithdraw& withdraw) {
  const auto it = served_.find({task, withdraw.id()});
  if (it == served_.end()) return;
  const std::shared_ptr<Cancellation> withdrawn = it->second;
  withdrawn->Cancel(absl::CancelledError(
      absl::StrCat(options_.cluster.Label(task), " waits no more")));
}

void MpiCalls::EndAllOf(int task, const absl::Status& reason) {
  std::vector<uint64_t> ids;
  for (const auto& [id, pending] : pending_) {
    if (pending.task == task) ids.push_back(id);
  }
  std::vector<std::shared_ptr<Cancellation>> withdrawn;
  absl::erase_if(served_, [&](const auto& served) {
    if (served.first.first != task) return false;
    withdrawn.push_back(served.second);
    return true;
  });
  for (uint64_t id : ids) End(id, reason);
  for (const auto& cancellation : withdrawn) cancellation->Cancel(reason);
}

}  // namespace tutti
