#include "remote/grpc/wire/transfer_wire.h"

#include <concepts>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tutti {
namespace {

constexpr uint32_t kLastFlag = 1;       // Bit in a frame.
constexpr uint32_t kMayReadMemory = 1;  // Bit in a record.
constexpr uint32_t kMaxCode = 16;       // Largest code of a status.

class Writer {
 public:
  explicit Writer(std::byte* to) : to_(to) {}

  template <std::integral T>
  void Put(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (size_t i = 0; i < sizeof(T); ++i) {
      *to_++ = static_cast<std::byte>(bits & 0xff);
      if constexpr (sizeof(T) > 1) bits >>= 8;
    }
  }

 private:
  std::byte* to_;
};

class Reader {
 public:
  explicit Reader(const std::byte* from) : from_(from) {}

  template <std::integral T>
  T Get() {
    std::make_unsigned_t<T> bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      bits |= static_cast<std::make_unsigned_t<T>>(*from_++) << (8 * i);
    }
    return static_cast<T>(bits);
  }

 private:
  const std::byte* from_;
};

absl::Status Wrong(absl::string_view what, uint64_t found) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", found));
}

absl::StatusOr<FrameHeader> CheckMemoryFrame(const FrameHeader& header) {
  const bool is_offer = header.kind == FrameKind::kOffer;
  if (header.length == (is_offer ? kMemoryOfferBytes : kMemoryPlaceBytes) &&
      header.offset == 0 && !header.is_last && (header.id == 0) == is_offer &&
      header.code == absl::StatusCode::kOk) {
    return header;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a frame about memory has the id ", header.id, ", the length ",
      header.length, ", the offset ", header.offset, " and the status code ",
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
  writer.Put(static_cast<uint32_t>(record.kind));
  writer.Put(static_cast<uint32_t>(record.dtype));
  writer.Put(record.id);
  writer.Put(record.num_bytes);
  writer.Put(record.incarnation);
  writer.Put(record.key.exec.generation);
  writer.Put(record.key.exec.step);
  writer.Put(record.key.exec.group);
  writer.Put(record.key.exec.instance);
  writer.Put(record.key.exec.execution);
  writer.Put(record.key.tag);
  writer.Put(record.key.from);
  writer.Put(record.key.to);
  writer.Put(record.kind == RecordKind::kCancel
                 ? static_cast<uint32_t>(record.code)
                 : static_cast<uint32_t>(record.may_read_memory));
  return bytes;
}

absl::StatusOr<TransferRecord> DecodeRecord(
    std::span<const std::byte, kRecordBytes> bytes) {
  Reader reader(bytes.data());
  TransferRecord record;
  const auto kind = reader.Get<uint32_t>();
  const auto dtype = reader.Get<uint32_t>();
  record.id = reader.Get<uint64_t>();
  record.num_bytes = reader.Get<uint64_t>();
  record.incarnation = reader.Get<uint64_t>();
  record.key.exec.generation = reader.Get<uint64_t>();
  record.key.exec.step = reader.Get<int64_t>();
  record.key.exec.group = reader.Get<int64_t>();
  record.key.exec.instance = reader.Get<int64_t>();
  record.key.exec.execution = reader.Get<uint64_t>();
  record.key.tag = reader.Get<int32_t>();
  record.key.from = reader.Get<int32_t>();
  record.key.to = reader.Get<int32_t>();
  const auto flags = reader.Get<uint32_t>();

  if (kind < 1 || kind > 4) return Wrong("the kind of a record", kind);
  if (dtype > 0xff) return Wrong("the dtype of a transfer", dtype);
  record.kind = static_cast<RecordKind>(kind);
  record.dtype = static_cast<DType>(dtype);
  if (record.kind == RecordKind::kCancel) return CheckReason(flags, record);
  if (flags > kMayReadMemory) return Wrong("the flags of a record", flags);
  record.may_read_memory = flags == kMayReadMemory;
  if (record.kind == RecordKind::kSend) return record;
  const absl::Status status = CheckSize(record);
  if (!status.ok()) return status;
  return record;
}

EncodedFrameHeader Encode(const FrameHeader& header) {
  EncodedFrameHeader bytes;
  Writer writer(bytes.data());
  writer.Put(header.id);
  writer.Put(header.offset);
  writer.Put(header.length);
  writer.Put(header.is_last ? kLastFlag : uint32_t{0});
  writer.Put(static_cast<uint32_t>(header.code));
  writer.Put(static_cast<uint32_t>(header.kind));
  return bytes;
}

absl::StatusOr<FrameHeader> DecodeFrameHeader(
    std::span<const std::byte, kFrameHeaderBytes> bytes) {
  Reader reader(bytes.data());
  FrameHeader header;
  header.id = reader.Get<uint64_t>();
  header.offset = reader.Get<uint64_t>();
  header.length = reader.Get<uint32_t>();
  const auto flags = reader.Get<uint32_t>();
  const auto code = reader.Get<uint32_t>();
  const auto kind = reader.Get<uint32_t>();

  if (flags > kLastFlag) return Wrong("the flags of a frame", flags);
  if (code > kMaxCode) return Wrong("the status code of a frame", code);
  if (kind > 2) return Wrong("the kind of a frame", kind);
  header.is_last = flags == kLastFlag;
  header.code = static_cast<absl::StatusCode>(code);
  header.kind = static_cast<FrameKind>(kind);
  if (header.kind != FrameKind::kPayload) return CheckMemoryFrame(header);
  if (header.code == absl::StatusCode::kOk) return header;
  if (!header.is_last || header.length > kMaxStatusMessageBytes) {
    return absl::InvalidArgumentError(
        "a frame with a status is not the last or has too long a message");
  }
  return header;
}

EncodedMemoryOffer Encode(const MemoryOffer& offer) {
  EncodedMemoryOffer bytes;
  Writer writer(bytes.data());
  writer.Put(offer.pid);
  writer.Put(offer.address);
  return bytes;
}

MemoryOffer DecodeMemoryOffer(
    std::span<const std::byte, kMemoryOfferBytes> bytes) {
  Reader reader(bytes.data());
  MemoryOffer offer;
  offer.pid = reader.Get<uint64_t>();
  offer.address = reader.Get<uint64_t>();
  return offer;
}

EncodedMemoryPlace Encode(const MemoryPlace& place) {
  EncodedMemoryPlace bytes;
  Writer writer(bytes.data());
  writer.Put(place.address);
  writer.Put(place.num_bytes);
  writer.Put(place.lease_address);
  writer.Put(place.lease);
  return bytes;
}

MemoryPlace DecodeMemoryPlace(
    std::span<const std::byte, kMemoryPlaceBytes> bytes) {
  Reader reader(bytes.data());
  MemoryPlace place;
  place.address = reader.Get<uint64_t>();
  place.num_bytes = reader.Get<uint64_t>();
  place.lease_address = reader.Get<uint64_t>();
  place.lease = reader.Get<uint64_t>();
  return place;
}

}  // namespace tutti
