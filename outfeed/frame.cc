#include "outfeed/frame.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr int64_t kHeaderBytes = 8;

std::byte ByteOf(uint32_t number, int index) {
  return static_cast<std::byte>(number >> (8 * index));
}

uint32_t NumberAt(const std::byte* bytes) {
  uint32_t number = 0;
  for (int i = 0; i < 4; ++i) {
    number |= std::to_integer<uint32_t>(bytes[i]) << (8 * i);
  }
  return number;
}

void WriteHeader(uint32_t consumer_id, std::byte* header) {
  for (int i = 0; i < 4; ++i) {
    header[i] = ByteOf(kOutfeedStart, i);
    header[4 + i] = ByteOf(consumer_id, i);
  }
}

std::byte* ShutdownBytes() {
  static std::array<std::byte, kHeaderBytes> bytes = [] {
    std::array<std::byte, kHeaderBytes> header;
    WriteHeader(kShutdownConsumerId, header.data());
    return header;
  }();
  return bytes.data();
}

}  // namespace

absl::StatusOr<Tensor> MakeHeader(uint32_t consumer_id) {
  absl::StatusOr<Tensor> header =
      Tensor::Allocate(DType::kUint8, TensorShape::Vector(kHeaderBytes));
  if (header.ok()) WriteHeader(consumer_id, header->mutable_data());
  return header;
}

Tensor ShutdownHeader() {
  return *Tensor::Wrap(DType::kUint8, TensorShape::Vector(kHeaderBytes),
                       ShutdownBytes());
}

bool IsShutdownHeader(const Tensor& array) {
  return array.data() == ShutdownBytes();
}

absl::StatusOr<uint32_t> ReadHeader(const Tensor& header) {
  if (!header.is_set() || header.dtype() != DType::kUint8 ||
      header.shape().num_dims() != 1 || header.shape().dim(0) != kHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a header of uint8[", kHeaderBytes, "] was expected, found ",
        header.is_set()
            ? absl::StrCat(Name(header.dtype()), header.shape().ToString())
            : "a tensor that is not set"));
  }
  const uint32_t start = NumberAt(header.data());
  if (start != kOutfeedStart) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the start marker of a header is ", kOutfeedStart, ", found ", start));
  }
  return NumberAt(header.data() + 4);
}

absl::Status OutfeedError(const absl::Status& status,
                          absl::string_view device) {
  return absl::Status(status.code(), absl::StrCat("outfeed of ", device, ": ",
                                                  status.message()));
}

absl::Status CheckPayload(const OutfeedConsumer& consumer, size_t index,
                          const Tensor& array) {
  RETURN_IF_ERROR(CheckArray(consumer, index, array));
  return IsShutdownHeader(array) ? NumArraysError(consumer, index)
                                 : absl::OkStatus();
}

absl::Status NumArraysError(const OutfeedConsumer& consumer, size_t found) {
  return absl::InvalidArgumentError(
      absl::StrCat("an item of consumer id ", consumer.id, " has ",
                   consumer.arrays.size(), " arrays, found ", found));
}

absl::StatusOr<Tensor> CopyOf(DType dtype, const TensorShape& shape,
                              absl::Span<const std::byte> bytes) {
  absl::StatusOr<Tensor> copy = Tensor::Allocate(dtype, shape);
  if (copy.ok() && !bytes.empty()) {
    std::memcpy(copy->mutable_data(), bytes.data(), bytes.size());
  }
  return copy;
}

}  // namespace tutti
