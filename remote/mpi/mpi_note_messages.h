#ifndef TUTTI_REMOTE_MPI_MPI_NOTE_MESSAGES_H_
#define TUTTI_REMOTE_MPI_MPI_NOTE_MESSAGES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/mpi/mpi_note.h"

namespace tutti {

// Notes as messages, as bytes: all processes run the same program on machines
// of one kind, as other collectives need too. One for each note, but for those
// that carry much, whose messages follow each other. Pure; for one thread.

// The bytes that a message can have.
size_t MostNoteMessageBytes();

// The messages of a note, which outlives this.
class NoteWriter {
 public:
  // REQUIRES: it carries at most MpiNote::kMostCarriedBytes.
  explicit NoteWriter(const MpiNote& note) : note_(note), left_(note.carried) {}

  // Puts the next one into `message`, whatever is there. False: that was all.
  bool Next(std::vector<std::byte>& message);

 private:
  const MpiNote& note_;
  absl::string_view left_;
  bool has_begun_ = false;
};

// Makes notes of the messages of several tasks, which come in order from each.
class NoteReader {
 public:
  // The note that is whole with this message; none: there is more to come, or
  // it is no message of a note, and is left out.
  std::optional<MpiNote> Take(int task, absl::Span<const std::byte> message);

 private:
  struct Arriving {
    MpiNote note;
    size_t num_bytes = 0;  // That it carries in all.
  };

  // The beginning of a note, without what it carries, which is left in
  // `message`.
  static std::optional<Arriving> TakeHeader(
      absl::Span<const std::byte>& message);

  absl::flat_hash_map<int, Arriving> arriving_;  // By task.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_NOTE_MESSAGES_H_
