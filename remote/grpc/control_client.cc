#include "remote/grpc/control_client.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status_macros.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "remote/grpc/wire/control_messages.h"
#include "remote/grpc/wire/status_codec.h"

namespace tutti {
namespace {

// Pause between attempts to reach a task that the caller waits for. gRPC
// connects at its own pace, and answers at once while it does not connect.
constexpr absl::Duration kRetryPause = DefaultTime("call again");

// Returns true for the least informative error: no process listens there, at
// this moment.
bool IsRefused(const absl::Status& status) {
  return absl::EndsWith(status.message(), kRefused);
}

// Returns true if the error shows that a process is gone that answered before.
// A broken connection does not: the process may live.
bool IsGone(const absl::Status& status) {
  return IsRefused(status) || absl::EndsWith(status.message(), kNoTask);
}

// Hints at TLS: a peer that refuses a certificate, or speaks only TLS, reports
// this only on its own side.
absl::string_view HintAt(const absl::Status& status) {
  if (!absl::EndsWith(status.message(), kClosed)) return "";
  return "; do both use TLS, or neither, and is this task's certificate valid "
         "there?";
}

}  // namespace

// Call with all its attempts. Lives until it has ended, and as long as a
// watcher or an alarm holds it.
class ControlClient::OutgoingCall final
    : public std::enable_shared_from_this<OutgoingCall> {
 public:
  OutgoingCall(ControlClient* client, int task, const grpc::ByteBuffer& request,
               ControlCallOptions options, ControlDone done)
      : client_(client),
        task_(task),
        request_(request),
        options_(std::move(options)),
        begin_(clock().Now()),
        done_(std::move(done)) {}

  void Start();

  // Ends a call that has not been started.
  void Refuse(absl::Status reason) { std::move(done_)(std::move(reason)); }

  // Ends the call with `reason`, soon.
  void Stop(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Attempt;

  Clock& clock() { return *client_->options_->environment.clock; }

  void Try() ABSL_LOCKS_EXCLUDED(mu_);
  void OnAttemptDone(Attempt& attempt, const grpc::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  ControlAnswer AnswerOf(Attempt& attempt, const grpc::Status& status);
  void TryAgain(bool at_once) ABSL_LOCKS_EXCLUDED(mu_);
  void OnDeadline() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DeadlineError() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Finish(ControlAnswer answer) ABSL_LOCKS_EXCLUDED(mu_);

  ControlClient* const client_;
  const int task_;
  const grpc::ByteBuffer request_;
  const ControlCallOptions options_;
  const absl::Time begin_;

  // Owned by the thread that finishes the call; by Start() before.
  ControlDone done_;

  Mutex mu_;
  absl::Status stop_reason_ ABSL_GUARDED_BY(mu_);  // OK: not stopped.
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mu_);
  absl::Time attempt_begin_ ABSL_GUARDED_BY(mu_);  // Begin of the last attempt.
  absl::Status last_error_ ABSL_GUARDED_BY(mu_);   // Error of an attempt.
  std::optional<Clock::AlarmId> retry_alarm_ ABSL_GUARDED_BY(mu_);
  std::optional<Clock::AlarmId> deadline_alarm_ ABSL_GUARDED_BY(mu_);
  Cancellation::WatchId watch_ ABSL_GUARDED_BY(mu_) = 0;
};

// Unary call of gRPC, over a connection that it waits for.
class ControlClient::OutgoingCall::Attempt final
    : public grpc::ClientUnaryReactor,
      public std::enable_shared_from_this<Attempt> {
 public:
  explicit Attempt(std::shared_ptr<OutgoingCall> call)
      : call_(std::move(call)),
        request_(call_->request_),
        context_(std::make_unique<grpc::ClientContext>()) {}

  void Start() {
    Peers& peers = *call_->client_->peers_;
    const auto self = shared_from_this();
    {
      MutexLock lock(&mu_);
      expected_ = peers.Identify(call_->task_, *context_,
                                 call_->options_.to_any_process);
    }
    peers.Connect(call_->task_, Peers::kControlLane,
                  [self](absl::StatusOr<Peers::Link> link) {
                    self->OnLink(std::move(link));
                  });
  }

  void Cancel() ABSL_LOCKS_EXCLUDED(mu_) {
    OnLink(absl::CancelledError("cancelled"));
    MutexLock lock(&mu_);
    if (context_ != nullptr) context_->TryCancel();
  }

  void OnReadInitialMetadataDone(bool ok) override { has_metadata_ = ok; }
  void OnDone(const grpc::Status& status) override;

  // Returns why no connection could be made; OK if one was.
  const absl::Status& link_error() const { return link_error_; }

  // Returns, after OnDone(), the incarnation that has answered; nothing without
  // an answer.
  std::optional<uint64_t> incarnation() const { return incarnation_; }
  bool is_answered() const { return is_answered_; }
  uint64_t expected() const { return expected_; }
  const grpc::ByteBuffer& reply() const { return reply_; }

 private:
  // Starts the call. Only the first report counts.
  void OnLink(absl::StatusOr<Peers::Link> link) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<OutgoingCall> call_;
  const grpc::ByteBuffer request_;
  std::shared_ptr<Attempt> self_;  // Set while gRPC has the call.
  uint64_t expected_ = 0;
  absl::Status link_error_;
  bool has_metadata_ = false;
  std::optional<uint64_t> incarnation_;
  bool is_answered_ = false;
  grpc::ByteBuffer reply_;

  Mutex mu_;
  bool has_link_ ABSL_GUARDED_BY(mu_) = false;  // Or an error instead.
  // Null once gRPC is done with it.
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);
};

void ControlClient::OutgoingCall::Attempt::OnLink(
    absl::StatusOr<Peers::Link> link) {
  {
    MutexLock lock(&mu_);
    if (std::exchange(has_link_, true)) return;
    if (link.ok()) {
      self_ = shared_from_this();
      grpc::GenericStub(link->channel)
          .PrepareUnaryCall(context_.get(), kControlMethod, grpc::StubOptions(),
                            &request_, &reply_, this);
    }
  }
  if (link.ok()) return StartCall();
  link_error_ = link.status();
  call_->OnAttemptDone(*this, grpc::Status::CANCELLED);
}

void ControlClient::OutgoingCall::Attempt::OnDone(const grpc::Status& status) {
  const std::shared_ptr<Attempt> self = std::move(self_);
  {
    MutexLock lock(&mu_);
    is_answered_ = IsAnswered(context_->GetServerTrailingMetadata());
    if (has_metadata_) {
      incarnation_ = FindIncarnation(context_->GetServerInitialMetadata());
    }
    call_->client_->peers_->Free(std::move(context_));
  }
  call_->OnAttemptDone(*this, status);
}

void ControlClient::OutgoingCall::Start() {
  const auto self = shared_from_this();
  if (options_.deadline != absl::InfiniteFuture()) {
    const Clock::AlarmId alarm =
        clock().CallAt(options_.deadline, [self] { self->OnDeadline(); });
    MutexLock lock(&mu_);
    deadline_alarm_ = alarm;
  }
  if (options_.cancellation != nullptr) {
    const Cancellation::WatchId watch = options_.cancellation->Watch(
        [self](const absl::Status& reason) { self->Stop(reason); });
    MutexLock lock(&mu_);
    watch_ = watch;
  }
  Try();
}

void ControlClient::OutgoingCall::Stop(absl::Status reason) {
  std::shared_ptr<Attempt> attempt;
  bool is_last = false;
  {
    MutexLock lock(&mu_);
    if (finished_ || !stop_reason_.ok()) return;
    stop_reason_ = reason;
    attempt = attempt_;
    // No other thread ends a call that waits for its next attempt.
    is_last = retry_alarm_.has_value() && clock().Cancel(*retry_alarm_);
  }
  if (attempt != nullptr) attempt->Cancel();
  if (is_last) Finish(std::move(reason));
}

void ControlClient::OutgoingCall::Try() {
  const auto attempt = std::make_shared<Attempt>(shared_from_this());
  absl::Status stopped;
  {
    MutexLock lock(&mu_);
    retry_alarm_.reset();
    stopped = stop_reason_;
    if (stopped.ok()) {
      attempt_ = attempt;
      attempt_begin_ = clock().Now();
    }
  }
  if (!stopped.ok()) return Finish(std::move(stopped));
  attempt->Start();
}

void ControlClient::OutgoingCall::OnAttemptDone(Attempt& attempt,
                                                const grpc::Status& status) {
  ControlAnswer answer = AnswerOf(attempt, status);
  const bool is_unanswered =
      absl::IsUnavailable(answer.status()) && !attempt.is_answered();
  const uint64_t known = client_->peers_->incarnation(task_);
  const bool is_replaced =
      attempt.expected() != 0 && attempt.expected() != known;
  const bool may_retry = is_unanswered && !is_replaced &&
                         (options_.wait_until_reachable ||
                          (known != 0 && !IsGone(answer.status())));
  absl::Duration lasted;
  absl::Status stopped;
  {
    MutexLock lock(&mu_);
    attempt_.reset();
    lasted = clock().Now() - attempt_begin_;
    stopped = stop_reason_;
    if (last_error_.ok() || !IsRefused(answer.status())) {
      last_error_ = answer.status();
    } else if (is_unanswered) {
      answer = last_error_;
    }
  }
  if (!stopped.ok()) return Finish(std::move(stopped));
  if (may_retry) return TryAgain(/*at_once=*/lasted > kRetryPause);
  Finish(std::move(answer));
}

ControlAnswer ControlClient::OutgoingCall::AnswerOf(
    Attempt& attempt, const grpc::Status& status) {
  if (!attempt.link_error().ok()) return attempt.link_error();
  Peers& peers = *client_->peers_;
  const std::optional<uint64_t> incarnation = attempt.incarnation();
  if (incarnation) {
    RETURN_IF_ERROR(peers.Observe(task_, attempt.expected(), *incarnation));
  }
  if (!status.ok()) {
    return attempt.is_answered() ? FromGrpc(status)
                                 : ConnectionError(peers.Label(task_), status);
  }
  proto::ControlReply reply;
  const absl::Status parsed = Parse(attempt.reply(), reply);
  if (parsed.ok()) return reply;
  return absl::InternalError(
      absl::StrCat(peers.Label(task_), " answered: ", parsed.message()));
}

void ControlClient::OutgoingCall::TryAgain(bool at_once) {
  const absl::Duration pause = at_once ? absl::ZeroDuration() : kRetryPause;
  absl::Status stopped;
  {
    MutexLock lock(&mu_);
    stopped = stop_reason_;
    if (stopped.ok()) {
      retry_alarm_ = clock().CallAt(
          clock().Now() + pause, [self = shared_from_this()] { self->Try(); });
    }
  }
  if (!stopped.ok()) Finish(std::move(stopped));
}

// May run after the call has finished and the client is gone.
void ControlClient::OutgoingCall::OnDeadline() {
  absl::Status error;
  {
    MutexLock lock(&mu_);
    if (finished_) return;
    error = DeadlineError();
  }
  Stop(std::move(error));
}

absl::Status ControlClient::OutgoingCall::DeadlineError() {
  const std::string waited =
      absl::StrFormat("%.1f s", absl::ToDoubleSeconds(clock().Now() - begin_));
  // An attempt that lasts so long was not refused, unlike an earlier one.
  const bool is_pending =
      attempt_ != nullptr && options_.deadline - attempt_begin_ > kRetryPause;
  const bool is_known = client_->peers_->incarnation(task_) != 0;
  if (!last_error_.ok() && !is_pending) {
    return absl::DeadlineExceededError(
        absl::StrCat("cannot reach ", last_error_.message(), ", for ", waited,
                     is_known ? "" : HintAt(last_error_)));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "no answer from ", client_->peers_->Label(task_), " for ", waited));
}

void ControlClient::OutgoingCall::Finish(ControlAnswer answer) {
  std::optional<Clock::AlarmId> alarm;
  Cancellation::WatchId watch = 0;
  {
    MutexLock lock(&mu_);
    finished_ = true;
    alarm = deadline_alarm_;
    watch = watch_;
  }
  if (alarm) clock().Cancel(*alarm);
  if (watch != 0) options_.cancellation->Unwatch(watch);
  ControlClient* const client = client_;
  client->Forget(shared_from_this());
  std::move(done_)(std::move(answer));
  client->in_flight_.End();
}

void ControlClient::Call(int task, proto::ControlRequest request,
                         ControlCallOptions options, ControlDone done) {
  const absl::Status known = peers_->CheckTask(task);
  if (!known.ok()) return std::move(done)(known);
  const size_t size = request.ByteSizeLong();
  if (size > options_->bounds.max_control_request_bytes) {
    return std::move(done)(absl::ResourceExhaustedError(absl::StrCat(
        "a request of ", size, " bytes to ", peers_->Label(task),
        " is larger than ", options_->bounds.max_control_request_bytes)));
  }
  const auto call = std::make_shared<OutgoingCall>(
      this, task, Serialize(request), std::move(options), std::move(done));
  bool may_begin = false;
  {
    MutexLock lock(&mu_);
    may_begin = in_flight_.Begin();
    if (may_begin) calls_.insert(call);
  }
  if (may_begin) return call->Start();
  call->Refuse(absl::CancelledError("the transport has been shut down"));
}

void ControlClient::Shutdown() {
  in_flight_.Close();
  absl::flat_hash_set<std::shared_ptr<OutgoingCall>> calls;
  {
    MutexLock lock(&mu_);
    calls = calls_;
  }
  for (const auto& call : calls) {
    call->Stop(absl::CancelledError("the transport is shut down"));
  }
  calls.clear();
  in_flight_.Wait();
}

void ControlClient::Forget(const std::shared_ptr<OutgoingCall>& call) {
  MutexLock lock(&mu_);
  calls_.erase(call);
}

}  // namespace tutti
