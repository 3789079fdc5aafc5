#include "remote/mpi/mpi_messenger.h"

#include <memory>
#include <string>
#include <utility>

namespace tutti {
namespace {

// So that bytes and calls of one process do not keep the others waiting.
constexpr int kMostAtATime = 64;

}  // namespace

void MpiMessenger::Send(int task, proto::MpiMessage message) {
  message.set_incarnation(incarnation_);
  const auto bytes = std::make_shared<std::string>(message.SerializeAsString());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, task,
            tag_, runtime_->messages(), &request);
  sending_.Add(request, [bytes](const MPI_Status& /*status*/) {});
  runtime_->Ring(task);
}

bool MpiMessenger::BeginToReceive() {
  int has_come = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  MPI_Improbe(MPI_ANY_SOURCE, tag_, runtime_->messages(), &has_come, &handle,
              &status);
  if (has_come == 0) return false;
  int num_bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &num_bytes);
  Arriving& message = arriving_[status.MPI_SOURCE].emplace_back();
  message.bytes.resize(static_cast<size_t>(num_bytes));
  MPI_Imrecv(message.bytes.data(), num_bytes, MPI_BYTE, &handle,
             &message.request);
  ++num_arriving_;
  return true;
}

bool MpiMessenger::Receive(
    const std::function<void(int task, const proto::MpiMessage&)>& on_message) {
  for (int i = 0; i < kMostAtATime; ++i) {
    if (!BeginToReceive()) break;
  }
  if (num_arriving_ == 0) return false;
  bool has_received = false;
  for (auto& [task, messages] : arriving_) {
    while (ReceiveNext(task, messages, on_message)) has_received = true;
  }
  return has_received;
}

bool MpiMessenger::ReceiveNext(int task, std::deque<Arriving>& messages,
                               const OnMessage& on_message) {
  if (messages.empty()) return false;
  int is_here = 0;
  MPI_Test(&messages.front().request, &is_here, MPI_STATUS_IGNORE);
  if (is_here == 0) return false;
  const std::string bytes = std::move(messages.front().bytes);
  messages.pop_front();
  --num_arriving_;
  proto::MpiMessage message;
  if (bytes.size() <= kMaxMessageBytes && message.ParseFromString(bytes)) {
    on_message(task, message);
  }
  return true;
}

}  // namespace tutti
