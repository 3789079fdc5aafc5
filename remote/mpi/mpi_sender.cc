#include "remote/mpi/mpi_sender.h"

#include <mpi.h>

#include <utility>

namespace tutti {

void MpiSender::Send(int task, absl::string_view message) {
  PieceWriter& writer = writers_[task];
  do {
    writer.Next(message, piece_);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(piece_.data(), static_cast<int>(piece_.size()), MPI_BYTE, task,
              tag_, runtime_->messages(), &request);
    int has_ended = 0;
    MPI_Test(&request, &has_ended, MPI_STATUS_IGNORE);
    if (has_ended != 0) continue;
    ++num_sending_;
    runtime_->Await(request, [this, task, kept = std::exchange(piece_, {})](
                                 const MPI_Status& /*status*/) {
      --num_sending_;
      runtime_->Ring(task);  // Only now has it gone.
    });
  } while (!message.empty());
  runtime_->Ring(task);
}

}  // namespace tutti
