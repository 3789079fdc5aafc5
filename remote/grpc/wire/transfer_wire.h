#ifndef TUTTI_REMOTE_GRPC_WIRE_TRANSFER_WIRE_H_
#define TUTTI_REMOTE_GRPC_WIRE_TRANSFER_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/peer_memory.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {

// Protocol of a transfer stream. Integers are little-endian.
//
// The receiver of bytes sends messages of one or more records: requests and
// cancellations. It never uses the id of a request twice. The message of its
// status follows a cancellation. The sender of bytes answers with messages of
// one or more frames: a header and its payload. The payload of a request comes
// in frames in order of offset. The last frame, or a frame with a status, ends
// the request. There is exactly one such frame for each request, also for a
// cancelled one.
//
// Processes that a Unix socket connects need not send large payloads. The
// kernel says which process the receiver reads, not the sender:
//
//   receiver                                sender
//     request, may_read_memory         --->   posts the bytes
//     reads the bytes, then the lease  <---   place {bytes, lease}
//     read                             --->   releases the bytes
//                                      <---   last frame, empty
//
// The lease is a word that keeps its value as long as the bytes are posted. The
// sender clears it before it releases them, for whatever reason. A receiver
// reads all bytes and then the lease. If the lease is still there, the bytes
// are right; otherwise it must discard them. A receiver that cannot read the
// bytes requests them by a record "send".

enum class RecordKind : uint32_t {
  kRequest = 1,
  kCancel = 2,  // Has the reason in its status.
  kRead = 3,    // The posted bytes have been read.
  kSend = 4,    // Unreadable: send the bytes as payload.
};

struct TransferRecord {
  RecordKind kind = RecordKind::kRequest;
  uint64_t id = 0;

  // Set in a request:
  BufKey key;

  // In a request: a multiple of the size of `dtype`. In a kSend: bytes that
  // have been read nevertheless. In a kCancel: size of the message that
  // follows.
  uint64_t num_bytes = 0;

  // Set in a request:
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;
  bool may_read_memory = false;

  // Set in a kCancel: not OK.
  absl::StatusCode code = absl::StatusCode::kOk;
};

inline constexpr size_t kRecordBytes = 88;
using EncodedRecord = std::array<std::byte, kRecordBytes>;

EncodedRecord Encode(const TransferRecord& record);

// Errors: INVALID_ARGUMENT saying what is wrong with which field.
absl::StatusOr<TransferRecord> DecodeRecord(
    std::span<const std::byte, kRecordBytes> bytes);

enum class FrameKind : uint32_t {
  kPayload = 0,
  kPlace = 1,  // Payload is a MemoryPlace.
};

struct FrameHeader {
  uint64_t id = 0;
  uint64_t offset = 0;
  uint32_t length = 0;  // Size of the payload that follows.
  bool is_last = false;
  FrameKind kind = FrameKind::kPayload;

  // Not OK: this frame ends the request, and its payload is the message.
  absl::StatusCode code = absl::StatusCode::kOk;
};

inline constexpr size_t kFrameHeaderBytes = 32;
using EncodedFrameHeader = std::array<std::byte, kFrameHeaderBytes>;

EncodedFrameHeader Encode(const FrameHeader& header);

// Errors: INVALID_ARGUMENT saying what is wrong with which field.
absl::StatusOr<FrameHeader> DecodeFrameHeader(
    std::span<const std::byte, kFrameHeaderBytes> bytes);

inline constexpr size_t kMemoryPlaceBytes = 32;
using EncodedMemoryPlace = std::array<std::byte, kMemoryPlaceBytes>;

EncodedMemoryPlace Encode(const MemoryPlace& place);
MemoryPlace DecodeMemoryPlace(
    std::span<const std::byte, kMemoryPlaceBytes> bytes);

// Largest message of a status; longer ones are cut.
inline constexpr size_t kMaxStatusMessageBytes = 4096;

// Largest size of the records in one message.
inline constexpr size_t kMaxRecordsBytes = 256 * kRecordBytes;
static_assert(kMaxRecordsBytes >= kRecordBytes + kMaxStatusMessageBytes);

// Records that wait to be written to a stream, in order. Packs them into
// messages of at most kMaxRecordsBytes. Not thread-safe.
class RecordQueue {
 public:
  // Adds a record, and the message of its status.
  void Add(const TransferRecord& record, absl::string_view message = "");

  // Removes the records of the next message. REQUIRES: !empty().
  std::string TakeMessage();

  bool empty() const { return records_.empty(); }
  void clear() { records_.clear(); }

 private:
  std::deque<std::string> records_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_WIRE_TRANSFER_WIRE_H_
