#include "remote/mpi/mpi_pieces.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tutti {
namespace {

// Of a message, in one piece. Between two processes of a host two messages of
// so many bytes took less time than one of twice as many (Open MPI 4.1.4, 2
// virtual processors of an Intel Xeon, 25 November 2026).
constexpr size_t kMostBytes = size_t{2} << 10;

// What a piece begins with.
struct Header {
  uint64_t number = 0;   // Of the pieces from its sender to its receiver.
  uint64_t is_last = 0;  // Of its message.
};
static_assert(std::is_trivially_copyable_v<Header>);

}  // namespace

size_t MostPieceBytes() { return sizeof(Header) + kMostBytes; }

void PieceWriter::Next(absl::string_view& message,
                       std::vector<std::byte>& piece) {
  const size_t num_bytes = std::min(message.size(), kMostBytes);
  const Header header = {.number = num_written_++,
                         .is_last = num_bytes == message.size() ? 1U : 0U};
  piece.resize(sizeof(header) + num_bytes);
  std::memcpy(piece.data(), &header, sizeof(header));
  std::memcpy(piece.data() + sizeof(header), message.data(), num_bytes);
  message.remove_prefix(num_bytes);
}

void PieceReader::Take(int task, absl::Span<const std::byte> piece,
                       OnMessage on_message) {
  Header header;
  if (piece.size() < sizeof(header)) return;
  std::memcpy(&header, piece.data(), sizeof(header));
  Sender& sender = senders_[task];
  if (header.number != sender.num_taken) {
    if (header.number < sender.num_taken) return;
    sender.early[header.number].assign(piece.begin(), piece.end());
    return;
  }
  TakeNext(task, sender, piece, on_message);
  while (!sender.early.empty() &&
         sender.early.begin()->first == sender.num_taken) {
    const Piece next =
        std::move(sender.early.extract(sender.early.begin()).mapped());
    TakeNext(task, sender, next, on_message);
  }
}

// Most messages are one piece, which is not copied.
void PieceReader::TakeNext(int task, Sender& sender,
                           absl::Span<const std::byte> piece,
                           OnMessage on_message) {
  Header header;
  std::memcpy(&header, piece.data(), sizeof(header));
  piece.remove_prefix(sizeof(header));
  const absl::string_view bytes(reinterpret_cast<const char*>(piece.data()),
                                piece.size());
  ++sender.num_taken;
  const bool is_last = header.is_last != 0;
  if (is_last && sender.num_bytes == 0) return on_message(task, bytes);
  sender.num_bytes += bytes.size();
  if (sender.num_bytes <= most_bytes_) {
    sender.message.append(bytes.data(), bytes.size());
  }
  if (!is_last) return;
  if (sender.num_bytes <= most_bytes_) on_message(task, sender.message);
  sender.num_bytes = 0;
  sender.message.clear();
}

}  // namespace tutti
