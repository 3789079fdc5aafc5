#ifndef TUTTI_REMOTE_GRPC_WIRE_TRANSFER_WIRE_H_
#define TUTTI_REMOTE_GRPC_WIRE_TRANSFER_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remote/peer_memory.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {

// What goes over a transfer stream. Integers are little-endian.
//
// The receiver of bytes sends messages of one or more records: requests, with
// ids that it never uses twice, and cancellations, which the message of their
// status follows. Their sender answers with messages of one or more frames: a
// header and its payload. The payload of a request goes in frames in order of
// offset; the last of them, or one that carries a status instead, ends it.
// There is exactly one such frame for each request, also for one that was
// cancelled.
//
// Processes of one host can do without sending large payloads:
//
//   receiver                                sender
//     stream, with host and challenge  --->   on the same host:
//     reads the proof                  <---   offer {pid, where the proof is}
//     request, may_read_memory         --->   lends the bytes
//     reads the bytes, then the lease  <---   place {bytes, lease}
//     read                             --->   takes the bytes back
//                                      <---   last frame, empty
//
// The lease is a word that has its value as long as the bytes are lent: the
// sender clears it before it takes them back, for whatever reason. A receiver
// that finds it there after it has read all bytes has read the right ones; if
// not, what it read is not to be used. Whoever cannot read the bytes asks for
// them by a record "send".

enum class RecordKind : uint32_t {
  kRequest = 1,
  kCancel = 2,  // For the reason that its status says.
  kRead = 3,    // The bytes that were lent have been read.
  kSend = 4,    // They cannot be read, and are to be sent as payload.
};

struct TransferRecord {
  RecordKind kind = RecordKind::kRequest;
  uint64_t id = 0;

  // Of a request:
  BufKey key;

  // Of a request, a multiple of the size of `dtype`; of a kSend, what has been
  // read all the same; of a kCancel, of the message that follows it.
  uint64_t num_bytes = 0;

  // Of a request:
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;
  bool may_read_memory = false;

  // Of a kCancel: not OK.
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
  kOffer = 1,  // Its payload is a MemoryOffer. Of no request: the id is 0.
  kPlace = 2,  // Its payload is a MemoryPlace.
};

struct FrameHeader {
  uint64_t id = 0;
  uint64_t offset = 0;
  uint32_t length = 0;  // Of the payload that follows.
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

inline constexpr size_t kMemoryOfferBytes = 16;
using EncodedMemoryOffer = std::array<std::byte, kMemoryOfferBytes>;

EncodedMemoryOffer Encode(const MemoryOffer& offer);
MemoryOffer DecodeMemoryOffer(
    std::span<const std::byte, kMemoryOfferBytes> bytes);

inline constexpr size_t kMemoryPlaceBytes = 32;
using EncodedMemoryPlace = std::array<std::byte, kMemoryPlaceBytes>;

EncodedMemoryPlace Encode(const MemoryPlace& place);
MemoryPlace DecodeMemoryPlace(
    std::span<const std::byte, kMemoryPlaceBytes> bytes);

// Longer messages of statuses are cut.
inline constexpr size_t kMaxStatusMessageBytes = 4096;

// Of the records in one message.
inline constexpr size_t kMaxRecordsBytes = 256 * kRecordBytes;
static_assert(kMaxRecordsBytes >= kRecordBytes + kMaxStatusMessageBytes);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_WIRE_TRANSFER_WIRE_H_
