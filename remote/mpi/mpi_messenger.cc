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

bool MpiMessenger::Receive(
    const std::function<void(int task, const proto::MpiMessage&)>& on_message) {
  for (int i = 0; i < kMostAtATime; ++i) {
    int has_come = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, tag_, runtime_->messages(), &has_come, &handle,
                &status);
    if (has_come == 0) return i > 0;
    int num_bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &num_bytes);
    received_.resize(static_cast<size_t>(num_bytes));
    MPI_Mrecv(received_.data(), num_bytes, MPI_BYTE, &handle,
              MPI_STATUS_IGNORE);
    proto::MpiMessage message;
    if (received_.size() > kMaxMessageBytes ||
        !message.ParseFromArray(received_.data(), num_bytes)) {
      continue;
    }
    on_message(status.MPI_SOURCE, message);
  }
  return true;
}

}  // namespace tutti
