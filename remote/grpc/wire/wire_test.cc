#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "remote/grpc/wire/status_codec.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace wire_test {

TEST(StatusCodecTest, CodesAndMessagesSurvive) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

TEST(StatusCodecTest, CutsBetweenCharacters) {
  EXPECT_EQ(Cut("abc", 3), "abc");
  EXPECT_EQ(Cut("abc", 2), "ab");
  EXPECT_EQ(Cut("a\xc3\xa9", 2), "a");
  EXPECT_EQ(Cut("\x80\x80\x80", 2), "");
}

TEST(StatusCodecTest, ConnectionErrorsAreSaidInPlainWords) {
  using enum grpc::StatusCode;
  const std::string failed = "failed to connect to all addresses; last error: ";
  const struct {
    grpc::StatusCode code;
    std::string text, said;
  } cases[] = {
      {UNAVAILABLE,
       failed + "UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: "
                "Connection refused",
       "connection refused"},
      {UNAVAILABLE, "Socket closed", "connection closed"},
      {UNAVAILABLE, "Transport closed", "connection closed"},
      {UNAVAILABLE,
       failed + "UNAVAILABLE: ipv4:127.0.0.1:1: Endpoint read failed",
       "connection closed"},
      {UNAVAILABLE, failed + "UNKNOWN: ipv4:127.0.0.1:1: Handshake read failed",
       "connection closed"},
      {UNAVAILABLE, "keepalive watchdog timeout", "no answer"},
      {UNAVAILABLE,
       failed + "UNKNOWN: ipv4:127.0.0.1:1: tcp handshaker shutdown",
       "no answer"},
      {UNAVAILABLE, "UNAVAILABLE: ipv4:127.0.0.1:1: Failed parsing HTTP/2",
       "what answers there is no task"},
      {UNAVAILABLE, "Received http2 header with status: 404",
       "what answers there is no task"},
      {CANCELLED, "CANCELLED", "connection closed"},
      {UNAVAILABLE, "something\nnew", "something\\x0anew"}};
  for (const auto& [code, text, said] : cases) {
    EXPECT_EQ(ConnectionError("task 3 (host:1)", grpc::Status(code, text)),
              absl::UnavailableError("task 3 (host:1): " + said))
        << text;
  }
  EXPECT_EQ(ConnectionError(
                "task 3 (host:1)",
                grpc::Status(UNAVAILABLE, failed + "UNKNOWN: ipv4:127.0.0.1:1: "
                                                   "Too many open files")),
            absl::ResourceExhaustedError(
                "task 3 (host:1): this process has no file descriptor left "
                "(ulimit -n)"));
  EXPECT_EQ(ConnectionError("task 3 (host:1)",
                            grpc::Status(RESOURCE_EXHAUSTED, "too large")),
            absl::ResourceExhaustedError("task 3 (host:1): too large"));
}

TransferRecord SomeRecord() {
  return {.kind = RecordKind::kRequest,
          .id = ~uint64_t{0},
          .key = {.exec = {.generation = ~uint64_t{1},
                           .step = -2,
                           .group = std::numeric_limits<int64_t>::min(),
                           .instance = 4,
                           .execution = 5},
                  .tag = -6,
                  .from = 7,
                  .to = std::numeric_limits<int32_t>::max()},
          .num_bytes = 8,
          .dtype = DType::kFloat64,
          .incarnation = 9,
          .may_read_memory = true};
}

TEST(TransferWireTest, RecordsComeOutAsTheyWentIn) {
  const TransferRecord record = SomeRecord();
  const auto decoded = DecodeRecord(Encode(record)).value();
  EXPECT_EQ(decoded.kind, record.kind);
  EXPECT_EQ(decoded.id, record.id);
  EXPECT_EQ(decoded.key, record.key);
  EXPECT_EQ(decoded.num_bytes, record.num_bytes);
  EXPECT_EQ(decoded.dtype, record.dtype);
  EXPECT_EQ(decoded.incarnation, record.incarnation);
  EXPECT_EQ(decoded.may_read_memory, record.may_read_memory);
}

TEST(TransferWireTest, IntegersAreLittleEndian) {
  const EncodedRecord bytes = Encode(TransferRecord{.id = 0x0102});
  EXPECT_EQ(bytes[0], std::byte{1});  // kRequest
  EXPECT_EQ(bytes[8], std::byte{2});
  EXPECT_EQ(bytes[9], std::byte{1});
}

TEST(TransferWireTest, RecordsThatMakeNoSenseAreRefused) {
  const auto error_of = [](const TransferRecord& record) {
    return DecodeRecord(Encode(record)).status();
  };
  const auto is_invalid = [](const char* text) {
    return IsInvalidArgument(text);
  };
  TransferRecord record = SomeRecord();
  record.kind = static_cast<RecordKind>(0);
  EXPECT_THAT(error_of(record), is_invalid("the kind of a record is 0"));
  record.kind = static_cast<RecordKind>(5);
  EXPECT_THAT(error_of(record), is_invalid("the kind of a record is 5"));
  record = SomeRecord();
  record.dtype = static_cast<DType>(99);
  EXPECT_THAT(error_of(record), is_invalid("99"));
  record = SomeRecord();
  record.num_bytes = 12;
  EXPECT_THAT(error_of(record), is_invalid("12 bytes"));
  record.num_bytes = uint64_t{1} << 63;
  EXPECT_THAT(error_of(record), is_invalid("9223372036854775808 bytes"));

  EncodedRecord bytes = Encode(SomeRecord());
  bytes[5] = std::byte{1};  // In the dtype.
  EXPECT_THAT(DecodeRecord(bytes).status(), is_invalid("dtype"));
  bytes = Encode(SomeRecord());
  bytes[kRecordBytes - 1] = std::byte{1};
  EXPECT_THAT(DecodeRecord(bytes).status(), is_invalid("flags"));
}

TEST(TransferWireTest, CancellationsHaveAReasonOfLimitedLength) {
  const TransferRecord cancel{.kind = RecordKind::kCancel,
                              .id = 5,
                              .num_bytes = kMaxStatusMessageBytes,
                              .code = absl::StatusCode::kAborted};
  const auto decoded = DecodeRecord(Encode(cancel)).value();
  EXPECT_EQ(decoded.kind, cancel.kind);
  EXPECT_EQ(decoded.id, cancel.id);
  EXPECT_EQ(decoded.num_bytes, cancel.num_bytes);
  EXPECT_EQ(decoded.code, cancel.code);

  TransferRecord wrong = cancel;
  wrong.num_bytes += 1;
  EXPECT_THAT(DecodeRecord(Encode(wrong)).status(),
              IsInvalidArgument("message is 4097"));
  wrong = cancel;
  wrong.code = absl::StatusCode::kOk;
  EXPECT_THAT(DecodeRecord(Encode(wrong)).status(), IsInvalidArgument("is 0"));
  wrong.code = static_cast<absl::StatusCode>(17);
  EXPECT_THAT(DecodeRecord(Encode(wrong)).status(), IsInvalidArgument("is 17"));
}

TEST(TransferWireTest, FrameHeadersComeOutAsTheyWentIn) {
  const FrameHeader header{.id = 1,
                           .offset = ~uint64_t{0},
                           .length = 3,
                           .is_last = true,
                           .code = absl::StatusCode::kAborted};
  const auto decoded = DecodeFrameHeader(Encode(header)).value();
  EXPECT_EQ(decoded.id, header.id);
  EXPECT_EQ(decoded.offset, header.offset);
  EXPECT_EQ(decoded.length, header.length);
  EXPECT_EQ(decoded.is_last, header.is_last);
  EXPECT_EQ(decoded.code, header.code);
}

TEST(TransferWireTest, FrameHeadersThatMakeNoSenseAreRefused) {
  const auto error_of = [](const FrameHeader& header) {
    return DecodeFrameHeader(Encode(header)).status();
  };
  const auto is_invalid = IsInvalidArgument();
  EXPECT_THAT(error_of({.code = static_cast<absl::StatusCode>(17)}),
              is_invalid);
  EXPECT_THAT(error_of({.is_last = false, .code = absl::StatusCode::kAborted}),
              is_invalid);
  EXPECT_THAT(error_of({.length = kMaxStatusMessageBytes + 1,
                        .is_last = true,
                        .code = absl::StatusCode::kAborted}),
              is_invalid);
  EncodedFrameHeader bytes = Encode(FrameHeader());
  bytes[20] = std::byte{2};  // In the flags.
  EXPECT_THAT(DecodeFrameHeader(bytes).status(), is_invalid);
  bytes = Encode(FrameHeader());
  bytes[31] = std::byte{2};
  EXPECT_THAT(DecodeFrameHeader(bytes).status(), is_invalid);
  EXPECT_THAT(error_of({.kind = static_cast<FrameKind>(2)}), is_invalid);
}

TEST(TransferWireTest, FramesAboutMemoryComeOutAsTheyWentInOrAreRefused) {
  const FrameHeader good{
      .id = 1, .length = kMemoryPlaceBytes, .kind = FrameKind::kPlace};
  EXPECT_EQ(DecodeFrameHeader(Encode(good)).value().kind, FrameKind::kPlace);
  const std::function<void(FrameHeader&)> changes[] = {
      [](auto& h) { h.length += 1; }, [](auto& h) { h.offset = 1; },
      [](auto& h) { h.is_last = true; },
      [](auto& h) { h.code = absl::StatusCode::kAborted; }};
  for (const auto& change : changes) {
    FrameHeader header = good;
    change(header);
    EXPECT_THAT(DecodeFrameHeader(Encode(header)).status(),
                IsInvalidArgument("a frame about memory"));
  }
  const MemoryPlace decoded_place = DecodeMemoryPlace(Encode(MemoryPlace{
      .address = 1, .num_bytes = 2, .lease_address = 3, .lease = 4}));
  EXPECT_EQ(decoded_place.address, 1);
  EXPECT_EQ(decoded_place.num_bytes, 2);
  EXPECT_EQ(decoded_place.lease_address, 3);
  EXPECT_EQ(decoded_place.lease, 4);
}

TEST(TransferWireTest, AnyBytesAreReadOrRefused) {
  std::mt19937_64 random(/*seed=*/1);
  for (int i = 0; i < 10'000; ++i) {
    EncodedRecord record;
    for (std::byte& byte : record) byte = static_cast<std::byte>(random());
    if (i % 2 == 0) record = Encode(SomeRecord());
    record[random() % kRecordBytes] = static_cast<std::byte>(random());
    const auto decoded = DecodeRecord(record);
    if (decoded.ok()) {
      EXPECT_EQ(Encode(*decoded), record);
    }
  }
}

}  // namespace wire_test
}  // namespace tutti
