#include "tools/launch/byte_streams.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tutti {
namespace {

// PIPE_BUF: a write of this size never blocks on a pipe that poll(2) calls
// writable.
constexpr size_t kWriteBytes = 4096;

}  // namespace

void LineSplitter::Add(absl::string_view bytes, Take take) {
  while (!bytes.empty()) {
    const size_t room = kMaxPieceBytes - rest_.size();
    const size_t newline = bytes.find('\n');
    const bool ends = newline < std::min(room, bytes.size());
    const size_t size = ends ? newline + 1 : std::min(room, bytes.size());
    const absl::string_view piece = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (rest_.empty() && (ends || size == kMaxPieceBytes)) {
      take(piece);
      continue;
    }
    rest_.append(piece.data(), piece.size());
    if (ends || rest_.size() == kMaxPieceBytes) Finish(take);
  }
}

void LineSplitter::Finish(Take take) {
  if (rest_.empty()) return;
  take(rest_);
  rest_.clear();
}

void OutputQueue::WriteSome() {
  const size_t size = std::min(text_.size() - next_, kWriteBytes);
  if (size == 0) return;
  const ssize_t written = write(descriptor_, text_.data() + next_, size);
  if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (written < 0) return Drop();
  next_ += static_cast<size_t>(written);
  if (next_ < kFullBytes && !is_empty()) return;
  text_.erase(0, next_);
  next_ = 0;
}

void OutputQueue::WriteAll() {
  while (!is_empty()) WriteSome();
}

void OutputQueue::Drop() {
  failed_ = true;
  text_.clear();
  next_ = 0;
}

std::streamsize OutputQueue::xsputn(const char* bytes, std::streamsize size) {
  if (failed_) return 0;
  text_.append(bytes, static_cast<size_t>(size));
  return size;
}

OutputQueue::int_type OutputQueue::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return 0;
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

}  // namespace tutti
