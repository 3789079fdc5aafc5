#include "remote/mpi/messages/mpi_note.h"

#include <cstring>
#include <type_traits>

namespace tutti {
namespace {

// First bytes of a note; the carried bytes follow.
struct Header {
  uint64_t kind = 0;
  ExecKey key;
  uint64_t is_in_place = 0;
  uint64_t rows_digest = 0;
  int64_t code = 0;
};
static_assert(std::is_trivially_copyable_v<Header>);

}  // namespace

size_t MostNoteBytes() { return sizeof(Header) + MpiNote::kMostCarriedBytes; }

void EncodeNote(const MpiNote& note, std::string& bytes) {
  const Header header = {.kind = static_cast<uint64_t>(note.kind),
                         .key = note.key,
                         .is_in_place = note.is_in_place ? 1U : 0U,
                         .rows_digest = note.rows_digest,
                         .code = static_cast<int64_t>(note.code)};
  bytes.assign(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += note.carried;
}

std::optional<MpiNote> DecodeNote(absl::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(header) || bytes.size() > MostNoteBytes()) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  constexpr auto kLastCode =
      static_cast<int64_t>(absl::StatusCode::kUnauthenticated);
  if (header.code < 0 || header.code > kLastCode) return std::nullopt;
  bytes.remove_prefix(sizeof(header));
  return MpiNote{.kind = static_cast<MpiNote::Kind>(header.kind),
                 .key = header.key,
                 .is_in_place = header.is_in_place != 0,
                 .rows_digest = header.rows_digest,
                 .carried = std::string(bytes),
                 .code = static_cast<absl::StatusCode>(header.code)};
}

}  // namespace tutti
