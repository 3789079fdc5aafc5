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

// Messages of any length, cut into pieces for which receives can be posted
// before anybody knows what comes: of so few bytes that MPI sends each at once,
// and copies it whether its receiver looks or not.
//
//   sender                            receiver
//     piece {number, bytes}  --->
//                           <---   receipt {how many pieces it has taken}
//
// MPI has memory for some hundred of them, for all receivers of a process. So
// no more are sent to one than kMostUnread beyond its last receipt: one that
// stands still keeps nothing from others. Pieces of one sender may be taken in
// any order, as MPI may end the receive of a later one first. All processes run
// the same program on machines of one kind, as other collectives need too.
// Pure; for one thread.

inline constexpr uint64_t kMostUnread = 64;

// The bytes that a piece or a receipt can have.
size_t MostPieceBytes();

// Of what goes to one task.
class PieceWriter {
 public:
  // Puts the next piece of `message`, which it shortens by that, into `piece`,
  // whatever is there; also for a message of no bytes. The last piece is that
  // after which `message` is empty. False, and nothing done: not before the
  // next receipt.
  bool Next(absl::string_view& message, std::vector<std::byte>& piece);

  void OnReceipt(uint64_t num_taken);

 private:
  uint64_t num_written_ = 0;
  uint64_t num_taken_ = 0;
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

  // Whether the task is to get a receipt; puts that into `piece`. After Take().
  bool TakeReceipt(int task, std::vector<std::byte>& piece);

 private:
  using Piece = std::vector<std::byte>;

  // Of one task.
  struct Sender {
    uint64_t num_taken = 0;
    uint64_t num_receipted = 0;
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

// How many pieces a receipt is for; none: this is no receipt.
std::optional<uint64_t> ReadReceipt(absl::Span<const std::byte> piece);

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECES_H_
