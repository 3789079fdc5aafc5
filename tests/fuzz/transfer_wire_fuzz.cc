// Fuzzes the records and frames of a transfer stream.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "remote/grpc/wire/transfer_wire.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

// The next N bytes of the input; zeros past its end.
template <size_t N>
std::array<std::byte, N> Next(FuzzInput& input) {
  std::array<std::byte, N> bytes;
  for (std::byte& byte : bytes) byte = std::byte{input.Number<uint8_t>()};
  return bytes;
}

template <size_t N>
std::string ToString(const std::array<std::byte, N>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), N);
}

void CheckRecord(const EncodedRecord& bytes) {
  const auto record = DecodeRecord(bytes);
  if (!record.ok()) {
    return Promise(absl::IsInvalidArgument(record.status()),
                   "a record that makes no sense is INVALID_ARGUMENT");
  }
  Promise(Encode(*record) == bytes, "a record goes out as it came in");
  if (record->kind == RecordKind::kCancel) {
    Promise(record->code != absl::StatusCode::kOk &&
                record->num_bytes <= kMaxStatusMessageBytes,
            "a cancellation has a reason of limited length");
    return;
  }
  if (record->kind == RecordKind::kSend) return;
  Promise(IsValid(record->dtype), "a record has a dtype");
  Promise(record->num_bytes % SizeOf(record->dtype) == 0,
          "a record has whole elements");
  Promise(record->num_bytes <=
              static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
          "the size of a record fits int64");
}

void CheckFrame(const EncodedFrameHeader& bytes) {
  const auto header = DecodeFrameHeader(bytes);
  if (!header.ok()) {
    return Promise(absl::IsInvalidArgument(header.status()),
                   "a frame that makes no sense is INVALID_ARGUMENT");
  }
  Promise(Encode(*header) == bytes, "a frame goes out as it came in");
  Promise(header->code == absl::StatusCode::kOk ||
              (header->is_last && header->length <= kMaxStatusMessageBytes),
          "a status ends its request and is not long");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  switch (input.Choice(3)) {
    case 0:
      CheckRecord(Next<kRecordBytes>(input));
      break;
    case 1:
      CheckFrame(Next<kFrameHeaderBytes>(input));
      break;
    default: {
      const auto place = Next<kMemoryPlaceBytes>(input);
      Promise(Encode(DecodeMemoryPlace(place)) == place,
              "a place goes out as it came in");
    }
  }
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  const auto add = [&seeds](int choice, const std::string& bytes) {
    seeds.push_back(FuzzOutput().Choice(choice).Rest(bytes).bytes());
  };
  for (uint32_t kind = 1; kind <= 4; ++kind) {
    add(0, ToString(
               Encode(TransferRecord{.kind = static_cast<RecordKind>(kind),
                                     .id = 5,
                                     .key = {.exec = {1, 2, 3, 4, 5}, .tag = 6},
                                     .num_bytes = 1 << 20,
                                     .dtype = DType::kFloat64,
                                     .incarnation = 7,
                                     .may_read_memory = true})));
  }
  add(1, ToString(Encode(FrameHeader{
             .id = 5, .offset = 1024, .length = 4096, .is_last = true})));
  add(1, ToString(Encode(FrameHeader{.id = 5,
                                     .length = 20,
                                     .is_last = true,
                                     .code = absl::StatusCode::kAborted})));
  add(1,
      ToString(Encode(FrameHeader{
          .id = 5, .length = kMemoryPlaceBytes, .kind = FrameKind::kPlace})));
  add(2, ToString(Encode(MemoryPlace{4096, 512, 8192, 99})));
  return seeds;
}

}  // namespace tutti
