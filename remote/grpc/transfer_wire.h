#ifndef TUTTI_REMOTE_GRPC_TRANSFER_WIRE_H_
#define TUTTI_REMOTE_GRPC_TRANSFER_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/buf_key.h"
#include "framework/dtype.h"

namespace tutti {

// What goes over a transfer stream. Integers are little-endian.
//
// The receiver of bytes sends messages of one or more records: requests, with
// ids that it never uses twice, and cancellations. Their sender answers with
// messages of one or more frames: a header and its payload. The payload of a
// request goes in frames in order of offset; the last of them, or one that
// carries a status instead, ends it. There is exactly one such frame for each
// request, also for one that was cancelled.

enum class RecordKind : uint32_t { kRequest = 1, kCancel = 2 };

struct TransferRecord {
  RecordKind kind = RecordKind::kRequest;
  uint64_t id = 0;

  // Of a request:
  BufKey key;
  uint64_t num_bytes = 0;  // A multiple of the size of `dtype`.
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;
};

inline constexpr size_t kRecordBytes = 88;
using EncodedRecord = std::array<std::byte, kRecordBytes>;

EncodedRecord Encode(const TransferRecord& record);

// Errors: INVALID_ARGUMENT saying what is wrong with which field.
absl::StatusOr<TransferRecord> DecodeRecord(
    std::span<const std::byte, kRecordBytes> bytes);

struct FrameHeader {
  uint64_t id = 0;
  uint64_t offset = 0;
  uint32_t length = 0;  // Of the payload that follows.
  bool is_last = false;

  // Not OK: this frame ends the request, and its payload is the message.
  absl::StatusCode code = absl::StatusCode::kOk;
};

inline constexpr size_t kFrameHeaderBytes = 32;
using EncodedFrameHeader = std::array<std::byte, kFrameHeaderBytes>;

EncodedFrameHeader Encode(const FrameHeader& header);

// Errors: INVALID_ARGUMENT saying what is wrong with which field.
absl::StatusOr<FrameHeader> DecodeFrameHeader(
    std::span<const std::byte, kFrameHeaderBytes> bytes);

// Longer messages of statuses are cut.
inline constexpr size_t kMaxStatusMessageBytes = 4096;

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFER_WIRE_H_
