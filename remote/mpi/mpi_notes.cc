#include "remote/mpi/mpi_notes.h"

#include <utility>

#include "absl/types/span.h"

namespace tutti {
namespace {

// So that notes do not keep the bytes of tensors waiting.
constexpr int kMostAtATime = 64;

}  // namespace

MpiNotes::MpiNotes(MpiRuntime* runtime)
    : runtime_(runtime),
      tag_(runtime->NewMessageTag()),
      incoming_(MostNoteMessageBytes()) {}

void MpiNotes::Open() {
  MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE,
            MPI_ANY_SOURCE, tag_, runtime_->messages(), &receive_);
}

void MpiNotes::Close() {
  if (receive_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&receive_);
  MPI_Wait(&receive_, MPI_STATUS_IGNORE);
}

void MpiNotes::Send(int task, const MpiNote& note) {
  NoteWriter writer(note);
  while (writer.Next(outgoing_)) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(outgoing_.data(), static_cast<int>(outgoing_.size()), MPI_BYTE,
              task, tag_, runtime_->messages(), &request);
    int has_ended = 0;
    MPI_Test(&request, &has_ended, MPI_STATUS_IGNORE);
    if (has_ended != 0) continue;
    sending_.Add(request, [kept = std::exchange(outgoing_, {})](
                              const MPI_Status& /*status*/) {});
  }
  runtime_->Ring(task);
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
    const auto note = reader_.Take(
        status.MPI_SOURCE, {incoming_.data(), static_cast<size_t>(num_bytes)});
    Open();
    if (note.has_value()) on_note(status.MPI_SOURCE, *note);
  }
  return true;
}

}  // namespace tutti
