#include "tools/launch/line_splitter.h"

#include <algorithm>

namespace tutti {

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

}  // namespace tutti
