#ifndef TUTTI_REMOTE_MPI_MPI_PIECES_H_
#define TUTTI_REMOTE_MPI_MPI_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// Messages of any length, cut into pieces for which receives can be posted
// before anybody knows what comes: of so few bytes that MPI sends each at once,
// and copies it whether its receiver looks or not. Pieces of one sender may be
// taken in any order: MPI may end the receive of a later one first. All
// processes run the same program on machines of one kind, as other collectives
// need too. Pure; for one thread.

// The bytes that a piece can have.
size_t MostPieceBytes();

// Of what goes to one task.
class PieceWriter {
 public:
  // Puts the next piece of `message`, which it shortens by that, into `piece`,
  // whatever is there. Once, too, for a message of no bytes; the last piece is
  // that after which `message` is empty.
  void Next(absl::string_view& message, std::vector<std::byte>& piece);

 private:
  uint64_t num_written_ = 0;
};

// Of what comes from several tasks.
class PieceReader {
 public:
  using OnMessage =
      absl::FunctionRef<void(int task, absl::string_view message)>;

  // Messages of more bytes are left out.
  explicit PieceReader(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Calls `on_message` for each that is whole now, in the order in which the
  // task sent them; that may not take any. What is no piece is left out.
  void Take(int task, absl::Span<const std::byte> piece, OnMessage on_message);

 private:
  using Piece = std::vector<std::byte>;

  // Of one task.
  struct Sender {
    uint64_t num_taken = 0;
    std::map<uint64_t, Piece> early;  // By number.

    // As far as the message is here; its bytes only while they are not too
    // many.
    std::string message;
    size_t num_bytes = 0;
  };

  void TakeNext(int task, Sender& sender, absl::Span<const std::byte> piece,
                OnMessage on_message);

  const size_t most_bytes_;
  absl::flat_hash_map<int, Sender> senders_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_PIECES_H_
