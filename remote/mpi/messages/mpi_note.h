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

// What processes of an MPI job say to each other about executions that they
// leave to MPI (mpi_agreement.h), and about small ones between two
// (mpi_exchange.h).
struct MpiNote {
  enum class Kind : uint64_t {
    kReady,
    kWithdraw,
    kWithdrawn,
    kBegin,
    kMakeAndBegin,  // After the group's communicator was made.
    kAskForLeave,
    kLeave,
    kReturnLeave,
    kInput,
    kTakeBack,
    kTakenBack,
    kRelease,  // The sender does not need the group's communicator any more.
    kFree,     // Nobody does.
    kGone,     // The last note of its sender, but for kFree.
  };

  Kind kind = Kind::kReady;
  ExecKey key;  // Of an execution; where a group is meant, any of it.

  // kReady: the sender's input is its output; kBegin, kMakeAndBegin: so it is
  // on some member.
  bool is_in_place = false;

  uint64_t rows_digest = 0;  // kReady: MpiPart::rows_digest().

  // kInput, kReady: the sender's input, kBegin: what all of these come to,
  // where that is so little that it goes along. kWithdrawn: why, where nobody
  // has asked, as `code` too.
  static constexpr size_t kMostCarriedBytes = size_t{4} << 10;
  std::string carried;
  absl::StatusCode code = absl::StatusCode::kOk;
};

// A note as bytes: all processes run the same program on machines of one kind,
// as other collectives need too. REQUIRES: it carries at most
// kMostCarriedBytes.
void EncodeNote(const MpiNote& note, std::string& bytes);

// None: these are no note.
std::optional<MpiNote> DecodeNote(absl::string_view bytes);

// The bytes that a note can have.
size_t MostNoteBytes();

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_NOTE_H_
