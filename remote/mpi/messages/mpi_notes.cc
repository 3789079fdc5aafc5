#include "remote/mpi/messages/mpi_notes.h"

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {
namespace {

// Limit per poll: notes must not delay the bytes of tensors.
constexpr int kMostAtATime = 64;

}  // namespace

void MpiNotes::Open() {
  messages_.PostReceive(absl::MakeSpan(incoming_), &receive_);
}

void MpiNotes::Close() {
  if (receive_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&receive_);
  MPI_Wait(&receive_, MPI_STATUS_IGNORE);
}

void MpiNotes::Send(int task, const MpiNote& note) {
  EncodeNote(note, outgoing_);
  messages_.Send(task, outgoing_);
}

bool MpiNotes::Receive(
    const std::function<void(int task, const MpiNote&)>& on_note) {
  for (int i = 0; i < kMostAtATime; ++i) {
    if (receive_ == MPI_REQUEST_NULL) return i > 0;
    int has_come = 0;
    MPI_Status status;
    MPI_Test(&receive_, &has_come, &status);
    if (has_come == 0) return i > 0;
    std::optional<MpiNote> note;  // At most one: its pieces come in order.
    messages_.OnPiece(incoming_, status,
                      [&](int /*task*/, absl::string_view bytes) {
                        note = DecodeNote(bytes);
                      });
    Open();
    if (note.has_value()) on_note(status.MPI_SOURCE, *note);
  }
  return true;
}

}  // namespace tutti
