#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_NOTE_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_NOTE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tutti/peer_access.h"

namespace tutti {

// Note between processes of an MPI job. It concerns an execution left to MPI
// (mpi_agreement.h), or a small one of two processes (mpi_exchange.h).
struct MpiNote {
  enum class Kind : uint64_t {
    kReady,
    kWithdraw,
    kWithdrawn,
    kBegin,
    kMakeAndBegin,  // Makes the group's communicator first.
    kRequestPermission,
    kLeave,
    kReturnLeave,
    kInput,
    kTakeBack,
    kTakenBack,
    kRelease,  // The sender no longer needs the group's communicator.
    kFree,     // No member needs it.
    kGone,     // Last note of its sender, except for kFree.
  };

  Kind kind = Kind::kReady;
  ExecKey key;  // Key of an execution. To name a group, any execution of it.

  // kReady: the sender's input is its output. kBegin, kMakeAndBegin: some
  // member's is.
  bool is_in_place = false;

  uint64_t rows_digest = 0;  // kReady: MpiPart::rows_digest().

  // kReady, kInput: the sender's input, if it is short. kBegin: the merged
  // inputs, if all were sent. kWithdrawn: the reason, like `code`, unless a
  // member has withdrawn.
  static constexpr size_t kMostCarriedBytes = size_t{4} << 10;
  std::string carried;
  absl::StatusCode code = absl::StatusCode::kOk;
};

// Encodes a note. All processes must run the same program on machines of one
// kind, as other collectives require too. REQUIRES: the note carries at most
// kMostCarriedBytes.
void EncodeNote(const MpiNote& note, std::string& bytes);

// Returns none if the bytes are no note.
std::optional<MpiNote> DecodeNote(absl::string_view bytes);

// Returns the largest size of a note.
size_t MostNoteBytes();

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_NOTE_H_
