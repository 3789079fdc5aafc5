#ifndef TUTTI_REMOTE_GRPC_WIRE_SLICE_CURSOR_H_
#define TUTTI_REMOTE_GRPC_WIRE_SLICE_CURSOR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace tutti {

// Reads the bytes of a message in place, from first to last.
class SliceCursor {
 public:
  explicit SliceCursor(const grpc::ByteBuffer& message);

  size_t remaining_bytes() const { return remaining_bytes_; }

  // Returns the next contiguous bytes, at most `max_bytes`. Empty only if that
  // is 0 or nothing remains. Valid as long as the cursor.
  absl::Span<const std::byte> Next(size_t max_bytes);

  // Copies the next bytes. Returns false, and reads nothing, if there are
  // fewer.
  bool Read(absl::Span<std::byte> to);

  // Returns the next bytes as text. Returns nothing, and reads nothing, if
  // there are fewer.
  std::optional<std::string> ReadText(size_t num_bytes);

 private:
  std::vector<grpc::Slice> slices_;
  size_t slice_ = 0;
  size_t position_ = 0;  // Position in that slice.
  size_t remaining_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_WIRE_SLICE_CURSOR_H_
