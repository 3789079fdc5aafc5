#include "remote/mpi/messages/mpi_notes.h"

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/mpi/messages/mpi_pieces.h"

namespace tutti {
namespace {

// Limit per poll: notes must not delay the bytes of tensors.
constexpr int kMostAtATime = 64;

}  // namespace

MpiNotes::MpiNotes(MpiEngine* runtime)
    : runtime_(runtime),
      tag_(runtime->NewMessageTag()),
      stream_(runtime, tag_, MostNoteBytes()),
      incoming_(MostPieceBytes()) {}

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
  EncodeNote(note, outgoing_);
  stream_.Send(task, outgoing_);
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
    std::optional<MpiNote> note;  // At most one: its pieces come in order.
    stream_.OnPiece(status.MPI_SOURCE,
                    absl::MakeConstSpan(incoming_).first(num_bytes),
                    [&](int /*task*/, absl::string_view bytes) {
                      note = DecodeNote(bytes);
                    });
    Open();
    if (note.has_value()) on_note(status.MPI_SOURCE, *note);
  }
  return true;
}

}  // namespace tutti
