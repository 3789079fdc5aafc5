#include "remote/grpc/wire/transfer_wire.h"

#include <concepts>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

constexpr uint32_t kLastFlag = 1;       // Bit in a frame.
constexpr uint32_t kMayReadMemory = 1;  // Bit in a record.
constexpr uint32_t kMaxCode = 16;       // Largest code of a status.

class Writer {
 public:
  explicit Writer(std::byte* to) : to_(to) {}

  void Put(std::integral auto... values) { (PutOne(values), ...); }

 private:
  template <std::integral T>
  void PutOne(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (size_t i = 0; i < sizeof(T); ++i) {
      *to_++ = static_cast<std::byte>(bits & 0xff);
      if constexpr (sizeof(T) > 1) bits >>= 8;
    }
  }

  std::byte* to_;
};

class Reader {
 public:
  explicit Reader(const std::byte* from) : from_(from) {}

  void Get(std::integral auto&... values) { (GetOne(values), ...); }

 private:
  template <std::integral T>
  void GetOne(T& value) {
    std::make_unsigned_t<T> bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      bits |= static_cast<std::make_unsigned_t<T>>(*from_++) << (8 * i);
    }
    value = static_cast<T>(bits);
  }

  const std::byte* from_;
};

absl::Status Wrong(absl::string_view what, uint64_t found) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", found));
}

absl::StatusOr<FrameHeader> CheckPlaceFrame(const FrameHeader& header) {
  if (header.length == kMemoryPlaceBytes && header.offset == 0 &&
      !header.is_last && header.code == absl::StatusCode::kOk) {
    return header;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a frame about memory has the length ", header.length,
                   ", the offset ", header.offset, " and the status code ",
                   header.code, header.is_last ? ", and is the last" : ""));
}

absl::StatusOr<TransferRecord> CheckReason(uint32_t code,
                                           TransferRecord record) {
  if (code < 1 || code > kMaxCode) {
    return Wrong("the status code of a cancellation", code);
  }
  if (record.num_bytes > kMaxStatusMessageBytes) {
    return Wrong("the length of a cancellation's message", record.num_bytes);
  }
  record.code = static_cast<absl::StatusCode>(code);
  return record;
}

absl::Status CheckSize(const TransferRecord& record) {
  if (!IsValid(record.dtype)) return InvalidDType(record.dtype);
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (record.num_bytes <= kMost &&
      record.num_bytes % SizeOf(record.dtype) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the size of a transfer, ", record.num_bytes, " bytes, is no number of ",
      "elements of ", Name(record.dtype)));
}

}  // namespace

EncodedRecord Encode(const TransferRecord& record) {
  EncodedRecord bytes;
  Writer writer(bytes.data());
  writer.Put(static_cast<uint32_t>(record.kind),
             static_cast<uint32_t>(record.dtype), record.id, record.num_bytes,
             record.incarnation, record.key.exec.generation,
             record.key.exec.step, record.key.exec.group,
             record.key.exec.instance, record.key.exec.execution,
             record.key.tag, record.key.from, record.key.to,
             record.kind == RecordKind::kCancel
                 ? static_cast<uint32_t>(record.code)
                 : static_cast<uint32_t>(record.may_read_memory));
  return bytes;
}

absl::StatusOr<TransferRecord> DecodeRecord(
    std::span<const std::byte, kRecordBytes> bytes) {
  Reader reader(bytes.data());
  TransferRecord record;
  uint32_t kind = 0, dtype = 0, flags = 0;
  ExecKey& exec = record.key.exec;
  reader.Get(kind, dtype, record.id, record.num_bytes, record.incarnation,
             exec.generation, exec.step, exec.group, exec.instance,
             exec.execution, record.key.tag, record.key.from, record.key.to,
             flags);

  if (kind < 1 || kind > 4) return Wrong("the kind of a record", kind);
  if (dtype > 0xff) return Wrong("the dtype of a transfer", dtype);
  record.kind = static_cast<RecordKind>(kind);
  record.dtype = static_cast<DType>(dtype);
  if (record.kind == RecordKind::kCancel) return CheckReason(flags, record);
  if (flags > kMayReadMemory) return Wrong("the flags of a record", flags);
  record.may_read_memory = flags == kMayReadMemory;
  if (record.kind == RecordKind::kSend) return record;
  RETURN_IF_ERROR(CheckSize(record));
  return record;
}

EncodedFrameHeader Encode(const FrameHeader& header) {
  EncodedFrameHeader bytes;
  Writer writer(bytes.data());
  writer.Put(header.id, header.offset, header.length,
             header.is_last ? kLastFlag : uint32_t{0},
             static_cast<uint32_t>(header.code),
             static_cast<uint32_t>(header.kind));
  return bytes;
}

absl::StatusOr<FrameHeader> DecodeFrameHeader(
    std::span<const std::byte, kFrameHeaderBytes> bytes) {
  Reader reader(bytes.data());
  FrameHeader header;
  uint32_t flags = 0, code = 0, kind = 0;
  reader.Get(header.id, header.offset, header.length, flags, code, kind);

  if (flags > kLastFlag) return Wrong("the flags of a frame", flags);
  if (code > kMaxCode) return Wrong("the status code of a frame", code);
  if (kind > 1) return Wrong("the kind of a frame", kind);
  header.is_last = flags == kLastFlag;
  header.code = static_cast<absl::StatusCode>(code);
  header.kind = static_cast<FrameKind>(kind);
  if (header.kind != FrameKind::kPayload) return CheckPlaceFrame(header);
  if (header.code == absl::StatusCode::kOk) return header;
  if (!header.is_last || header.length > kMaxStatusMessageBytes) {
    return absl::InvalidArgumentError(
        "a frame with a status is not the last or has too long a message");
  }
  return header;
}

EncodedMemoryPlace Encode(const MemoryPlace& place) {
  EncodedMemoryPlace bytes;
  Writer writer(bytes.data());
  writer.Put(place.address, place.num_bytes, place.lease_address, place.lease);
  return bytes;
}

MemoryPlace DecodeMemoryPlace(
    std::span<const std::byte, kMemoryPlaceBytes> bytes) {
  Reader reader(bytes.data());
  MemoryPlace place;
  reader.Get(place.address, place.num_bytes, place.lease_address, place.lease);
  return place;
}

void RecordQueue::Add(const TransferRecord& record, absl::string_view message) {
  const EncodedRecord encoded = Encode(record);
  records_.push_back(absl::StrCat(
      absl::string_view(reinterpret_cast<const char*>(encoded.data()),
                        encoded.size()),
      message));
}

std::string RecordQueue::TakeMessage() {
  std::string message = std::move(records_.front());
  records_.pop_front();
  while (!records_.empty() &&
         message.size() + records_.front().size() <= kMaxRecordsBytes) {
    message += records_.front();
    records_.pop_front();
  }
  return message;
}

}  // namespace tutti
