#include "remote/grpc/transfers/transfer_sender.h"

#include <utility>

#include "remote/grpc/transfers/send_stream.h"

namespace tutti {

grpc::ServerGenericBidiReactor* TransferSender::Serve(
    const ControlCaller& caller, grpc::CallbackServerContext* context) {
  const absl::Status begun = open_streams_.Begin(caller.task);
  if (!begun.ok()) return Refuse(begun, context);
  return SendStream::Begin(this, caller, context);
}

void TransferSender::Cancel(const TransferChannel::Choice& choice,
                            const absl::Status& reason) {
  for (const auto& stream : Streams()) stream->Cancel(choice, reason);
}

void TransferSender::Drop(const ControlCaller& process,
                          const absl::Status& reason) {
  for (const auto& stream : Streams()) {
    if (stream->caller() == process) stream->Drop(reason);
  }
}

std::vector<std::shared_ptr<SendStream>> TransferSender::Streams() {
  std::vector<std::shared_ptr<SendStream>> streams;
  MutexLock lock(&mu_);
  for (const auto& [key, stream] : streams_) streams.push_back(stream);
  return streams;
}

void TransferSender::AddStream(const std::shared_ptr<SendStream>& stream) {
  MutexLock lock(&mu_);
  streams_.emplace(stream.get(), stream);
}

void TransferSender::RemoveStream(const SendStream* stream) {
  std::shared_ptr<SendStream> removed;
  MutexLock lock(&mu_);
  const auto found = streams_.find(stream);
  removed = std::move(found->second);  // Freed after the lock.
  streams_.erase(found);
}

// InFlight counts the Loan: this object lives as long as the Loan does.
void TransferSender::WatchSend(std::shared_ptr<Loan> loan, std::string peer) {
  const std::weak_ptr<Loan> watched = std::exchange(loan, nullptr);
  if (watched.expired()) return;
  Clock& clock = *options_->environment.clock;
  clock.CallAt(clock.Now() + options_->cancel_grace,
               [this, watched, peer = std::move(peer)] {
                 const std::shared_ptr<Loan> held = watched.lock();
                 if (held != nullptr) Break(peer);
               });
}

}  // namespace tutti
