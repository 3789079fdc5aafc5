#include "remote/mpi/mpi_notes.h"

#include <memory>

namespace tutti {
namespace {

// So that notes do not keep the bytes of tensors waiting.
constexpr int kMostAtATime = 64;

}  // namespace

void MpiNotes::Open() {
  MPI_Irecv(&incoming_, sizeof(incoming_), MPI_BYTE, MPI_ANY_SOURCE, tag_,
            runtime_->messages(), &receive_);
}

void MpiNotes::Close() {
  if (receive_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&receive_);
  MPI_Wait(&receive_, MPI_STATUS_IGNORE);
}

void MpiNotes::Send(int task, const MpiNote& note) {
  const auto kept = std::make_shared<const MpiNote>(note);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(kept.get(), sizeof(*kept), MPI_BYTE, task, tag_,
            runtime_->messages(), &request);
  runtime_->Ring(task);
  int has_ended = 0;
  MPI_Test(&request, &has_ended, MPI_STATUS_IGNORE);
  if (has_ended != 0) return;
  sending_.Add(request, [kept](const MPI_Status& /*status*/) {});
}

bool MpiNotes::Receive(
    const std::function<void(int task, const MpiNote&)>& on_note) {
  for (int i = 0; i < kMostAtATime; ++i) {
    if (receive_ == MPI_REQUEST_NULL) return i > 0;
    int has_come = 0;
    MPI_Status status;
    MPI_Test(&receive_, &has_come, &status);
    if (has_come == 0) return i > 0;
    int num_bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &num_bytes);
    const MpiNote note = incoming_;
    Open();
    if (num_bytes == sizeof(note)) on_note(status.MPI_SOURCE, note);
  }
  return true;
}

}  // namespace tutti
