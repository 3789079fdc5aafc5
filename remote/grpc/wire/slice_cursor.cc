#include "remote/grpc/wire/slice_cursor.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

namespace tutti {

SliceCursor::SliceCursor(const grpc::ByteBuffer& message) {
  if (!message.Valid() || !message.Dump(&slices_).ok()) slices_.clear();
  for (const grpc::Slice& slice : slices_) remaining_bytes_ += slice.size();
}

absl::Span<const std::byte> SliceCursor::Next(size_t max_bytes) {
  while (slice_ < slices_.size() && position_ == slices_[slice_].size()) {
    ++slice_;
    position_ = 0;
  }
  if (slice_ == slices_.size()) return {};
  const grpc::Slice& slice = slices_[slice_];
  const size_t size = std::min(max_bytes, slice.size() - position_);
  const auto* begin = reinterpret_cast<const std::byte*>(slice.begin());
  const absl::Span<const std::byte> bytes(begin + position_, size);
  position_ += size;
  remaining_bytes_ -= size;
  return bytes;
}

bool SliceCursor::Read(absl::Span<std::byte> to) {
  if (to.size() > remaining_bytes_) return false;
  while (!to.empty()) {
    const absl::Span<const std::byte> bytes = Next(to.size());
    std::memcpy(to.data(), bytes.data(), bytes.size());
    to.remove_prefix(bytes.size());
  }
  return true;
}

std::optional<std::string> SliceCursor::ReadText(size_t num_bytes) {
  if (num_bytes > remaining_bytes_) return std::nullopt;
  std::string text(num_bytes, '\0');
  Read(absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size()));
  return text;
}

}  // namespace tutti
