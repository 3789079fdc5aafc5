#include "remote/mpi/mpi_note_messages.h"

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tutti {
namespace {

// Of what is carried, in one message. Between two processes of a host two of so
// many bytes took less time than one of twice as many (Open MPI 4.1.4, 2
// virtual processors of an Intel Xeon, 25 November 2026).
constexpr size_t kMostPieceBytes = size_t{2} << 10;

// What the first message of a note begins with.
struct Header {
  uint64_t kind = 0;
  ExecKey key;
  uint64_t is_in_place = 0;
  uint64_t num_carried = 0;
};
static_assert(std::is_trivially_copyable_v<Header>);

void Append(const void* bytes, size_t num_bytes,
            std::vector<std::byte>& message) {
  const auto* const begin = static_cast<const std::byte*>(bytes);
  message.insert(message.end(), begin, begin + num_bytes);
}

}  // namespace

size_t MostNoteMessageBytes() { return sizeof(Header) + kMostPieceBytes; }

bool NoteWriter::Next(std::vector<std::byte>& message) {
  if (has_begun_ && left_.empty()) return false;
  message.clear();
  if (!std::exchange(has_begun_, true)) {
    const Header header = {.kind = static_cast<uint64_t>(note_.kind),
                           .key = note_.key,
                           .is_in_place = note_.is_in_place ? 1U : 0U,
                           .num_carried = note_.carried.size()};
    Append(&header, sizeof(header), message);
  }
  const absl::string_view piece = left_.substr(0, kMostPieceBytes);
  Append(piece.data(), piece.size(), message);
  left_.remove_prefix(piece.size());
  return true;
}

std::optional<NoteReader::Arriving> NoteReader::TakeHeader(
    absl::Span<const std::byte>& message) {
  Header header;
  if (message.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, message.data(), sizeof(header));
  message.remove_prefix(sizeof(header));
  if (header.num_carried > MpiNote::kMostCarriedBytes) return std::nullopt;
  return Arriving{.note = {.kind = static_cast<MpiNote::Kind>(header.kind),
                           .key = header.key,
                           .is_in_place = header.is_in_place != 0},
                  .num_bytes = static_cast<size_t>(header.num_carried)};
}

std::optional<MpiNote> NoteReader::Take(int task,
                                        absl::Span<const std::byte> message) {
  std::optional<Arriving> arriving;
  const auto found = arriving_.find(task);
  if (found != arriving_.end()) {
    arriving = std::move(found->second);
    arriving_.erase(found);
  } else {
    arriving = TakeHeader(message);
    if (!arriving.has_value()) return std::nullopt;
  }
  std::string& carried = arriving->note.carried;
  carried.append(reinterpret_cast<const char*>(message.data()), message.size());
  if (carried.size() > arriving->num_bytes) return std::nullopt;
  if (carried.size() == arriving->num_bytes) return std::move(arriving->note);
  arriving_[task] = *std::move(arriving);
  return std::nullopt;
}

}  // namespace tutti
