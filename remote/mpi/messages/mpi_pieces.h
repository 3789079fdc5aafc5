#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECES_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// Messages of any length, cut into pieces. A receive for a piece can be posted
// before its sender is known. A piece is so short that MPI sends it at once,
// and copies it whether its receiver looks or not.
//
//   sender                            receiver
//     piece {number, bytes}  --->
//                           <---   receipt {number of pieces taken}
//
// MPI has memory for some hundred pieces, shared by all receivers of a process.
// Therefore a sender sends one receiver at most kMostUnread pieces beyond its
// last receipt: a receiver that stands still takes no memory from others. The
// pieces of one sender may be taken in any order: MPI may end the receive of a
// later one first. All processes must run the same program on machines of one
// kind, as other collectives require too. Pure; for one thread.

inline constexpr uint64_t kMostUnread = 64;

// Returns the largest size of a piece or a receipt.
size_t MostPieceBytes();

// Writes the pieces for one task.
class PieceWriter {
 public:
  // Overwrites `piece` with the next piece of `message`, and removes it from
  // `message`. An empty message has one piece too. The piece after which
  // `message` is empty is the last one. Returns false, and does nothing, if the
  // next piece must wait for a receipt.
  bool Next(absl::string_view& message, std::vector<std::byte>& piece);

  void OnReceipt(uint64_t num_taken);

 private:
  uint64_t num_written_ = 0;
  uint64_t num_taken_ = 0;
};

// Reads the pieces of several tasks.
class PieceReader {
 public:
  using OnMessage =
      absl::FunctionRef<void(int task, absl::string_view message)>;

  // Drops messages longer than `most_bytes`.
  explicit PieceReader(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Takes a piece. Calls `on_message` for each message that is now complete, in
  // the order of the task's sends; `on_message` must not call Take(). Drops
  // bytes that are no piece.
  void Take(int task, absl::Span<const std::byte> piece, OnMessage on_message);

  // Writes a receipt for the task into `piece`, if one is due; else returns
  // false. Call after Take().
  bool TakeReceipt(int task, std::vector<std::byte>& piece);

 private:
  using Piece = std::vector<std::byte>;

  // State of one task.
  struct Sender {
    uint64_t num_taken = 0;
    uint64_t num_receipted = 0;
    std::map<uint64_t, Piece> early;  // Keyed by number.

    // Beginning of the present message. Holds bytes only while they are not too
    // many.
    std::string message;
    size_t num_bytes = 0;
  };

  void TakeNext(int task, Sender& sender, absl::Span<const std::byte> piece,
                OnMessage on_message);

  const size_t most_bytes_;
  absl::flat_hash_map<int, Sender> senders_;
};

// Returns the number of pieces in a receipt, or none if this is no receipt.
std::optional<uint64_t> ReadReceipt(absl::Span<const std::byte> piece);

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECES_H_
