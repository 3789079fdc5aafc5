#include "outfeed/parcel.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/peer_status.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

enum Kind : uint8_t {
  kNothing,  // The rest of the parcel is unused.
  kDefine,
  kSpec,
  kItem,
  kInline,
  kLarge,
  kEnd,
};

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("an outfeed parcel ", what));
}

absl::Status Truncated() { return Invalid("ends in the middle of an entry"); }

constexpr auto kLastCode =
    static_cast<uint8_t>(absl::StatusCode::kUnauthenticated);

// Cost of an item and of each of its arrays, besides the payload.
constexpr int64_t kEntryCostBytes = 32;

}  // namespace

bool ParcelWriter::Begin(uint8_t kind, size_t num_bytes) {
  if (parcel_.size() - size_ < num_bytes + 1) return false;
  Put(kind);
  return true;
}

template <typename T>
void ParcelWriter::Put(T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (size_t i = 0; i < sizeof(T); ++i) {
    parcel_[size_++] = static_cast<std::byte>(bits >> (8 * i));
  }
}

void ParcelWriter::PutBytes(const void* bytes, size_t num_bytes) {
  if (num_bytes > 0) std::memcpy(parcel_.data() + size_, bytes, num_bytes);
  size_ += num_bytes;
}

bool ParcelWriter::Add(const DefineEntry& entry) {
  if (!Begin(kDefine, 8)) return false;
  Put(entry.consumer_id);
  Put(entry.num_arrays);
  return true;
}

bool ParcelWriter::Add(const SpecEntry& entry) {
  const absl::Span<const int64_t> dims = entry.spec.shape.dims();
  if (!Begin(kSpec, 2 + dims.size() * sizeof(int64_t))) return false;
  Put(static_cast<uint8_t>(entry.spec.dtype));
  Put(static_cast<uint8_t>(dims.size()));
  for (const int64_t dim : dims) Put(dim);
  return true;
}

bool ParcelWriter::Add(const ItemEntry& entry) {
  if (!Begin(kItem, 4)) return false;
  Put(entry.consumer_id);
  return true;
}

bool ParcelWriter::Add(const InlineEntry& entry) {
  if (!Begin(kInline, 2 + entry.bytes.size())) return false;
  Put(static_cast<uint16_t>(entry.bytes.size()));
  PutBytes(entry.bytes.data(), entry.bytes.size());
  return true;
}

bool ParcelWriter::Add(const LargeEntry& /*entry*/) { return Begin(kLarge, 0); }

bool ParcelWriter::Add(const EndEntry& entry) {
  const absl::string_view message =
      absl::string_view(entry.status.message()).substr(0, kMaxEndMessageBytes);
  if (!Begin(kEnd, 3 + message.size())) return false;
  Put(static_cast<uint8_t>(entry.status.code()));
  Put(static_cast<uint16_t>(message.size()));
  PutBytes(message.data(), message.size());
  return true;
}

void ParcelWriter::Finish() {
  const absl::Span<std::byte> rest = parcel_.subspan(size_);
  std::fill(rest.begin(), rest.end(), static_cast<std::byte>(kNothing));
  size_ = parcel_.size();
}

absl::StatusOr<std::optional<ParcelEntry>> ParcelReader::Next() {
  uint8_t kind = kNothing;
  if (!Get(kind) || kind == kNothing) {
    parcel_ = {};
    if (num_read_ == 0) return Invalid("is empty");
    return std::nullopt;
  }
  ++num_read_;
  ASSIGN_OR_RETURN(ParcelEntry entry, Read(kind));
  return std::optional<ParcelEntry>(std::move(entry));
}

absl::StatusOr<ParcelEntry> ParcelReader::Read(uint8_t kind) {
  switch (kind) {
    case kDefine:
      return ReadDefine();
    case kSpec:
      return ReadSpec();
    case kItem: {
      ItemEntry entry;
      if (!Get(entry.consumer_id)) return Truncated();
      return entry;
    }
    case kInline:
      return ReadInline();
    case kLarge:
      return LargeEntry();
    case kEnd:
      return ReadEnd();
    default:
      return Invalid(absl::StrCat("has an entry of kind ", kind));
  }
}

absl::StatusOr<ParcelEntry> ParcelReader::ReadDefine() {
  DefineEntry entry;
  if (!Get(entry.consumer_id) || !Get(entry.num_arrays)) return Truncated();
  if (entry.num_arrays > kMaxArraysPerItem) {
    return Invalid(absl::StrCat("defines items of ", entry.num_arrays,
                                " arrays, above ", kMaxArraysPerItem));
  }
  return entry;
}

absl::StatusOr<ParcelEntry> ParcelReader::ReadSpec() {
  uint8_t dtype = 0;
  uint8_t num_dims = 0;
  if (!Get(dtype) || !Get(num_dims)) return Truncated();
  if (!IsValid(static_cast<DType>(dtype))) {
    return InvalidDType(static_cast<DType>(dtype));
  }
  std::vector<int64_t> dims(num_dims);
  for (int64_t& dim : dims) {
    if (!Get(dim)) return Truncated();
  }
  ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
  return SpecEntry{{static_cast<DType>(dtype), shape}};
}

absl::StatusOr<ParcelEntry> ParcelReader::ReadInline() {
  uint16_t num_bytes = 0;
  InlineEntry entry;
  if (!Get(num_bytes) || !GetBytes(num_bytes, entry.bytes)) return Truncated();
  if (num_bytes > kMaxInlineBytes) {
    return Invalid(absl::StrCat("has an array of ", num_bytes, " bytes, above ",
                                kMaxInlineBytes));
  }
  return entry;
}

absl::StatusOr<ParcelEntry> ParcelReader::ReadEnd() {
  uint8_t code = 0;
  uint16_t num_bytes = 0;
  absl::Span<const std::byte> bytes;
  if (!Get(code) || !Get(num_bytes) || !GetBytes(num_bytes, bytes)) {
    return Truncated();
  }
  if (code > kLastCode || num_bytes > kMaxEndMessageBytes) {
    return Invalid(absl::StrCat("ends the stream with code ", code, " and ",
                                num_bytes, " bytes of message"));
  }
  const absl::string_view message(reinterpret_cast<const char*>(bytes.data()),
                                  bytes.size());
  return EndEntry{PeerStatus(static_cast<absl::StatusCode>(code), message)};
}

template <typename T>
bool ParcelReader::Get(T& value) {
  absl::Span<const std::byte> bytes;
  if (!GetBytes(sizeof(T), bytes)) return false;
  std::make_unsigned_t<T> bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    const auto byte = std::to_integer<std::make_unsigned_t<T>>(bytes[i]);
    bits = static_cast<std::make_unsigned_t<T>>(bits | (byte << (8 * i)));
  }
  value = static_cast<T>(bits);
  return true;
}

bool ParcelReader::GetBytes(size_t num_bytes,
                            absl::Span<const std::byte>& bytes) {
  if (num_bytes > parcel_.size()) return false;
  bytes = parcel_.first(num_bytes);
  parcel_.remove_prefix(num_bytes);
  return true;
}

int64_t ParcelPacker::CostOf(const OutfeedConsumer& consumer) {
  const auto num_entries = static_cast<int64_t>(consumer.arrays.size()) + 1;
  return consumer.payload_bytes + num_entries * kEntryCostBytes;
}

absl::Status ParcelPacker::AddItem(const OutfeedConsumer& consumer,
                                   absl::Span<Tensor> arrays) {
  if (!defined_.contains(consumer.id)) {
    RETURN_IF_ERROR(CheckBounds(consumer));
    RETURN_IF_ERROR(Define(consumer));
  }
  RETURN_IF_ERROR(Add(ItemEntry{consumer.id}));
  open_.cost_bytes += kEntryCostBytes;
  for (Tensor& array : arrays) {
    RETURN_IF_ERROR(AddArray(array));
  }
  return absl::OkStatus();
}

absl::Status ParcelPacker::CheckBounds(const OutfeedConsumer& consumer) const {
  if (defined_.size() >= kMaxConsumersPerStream) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxConsumersPerStream,
                     " consumers cannot be sent to another process"));
  }
  const bool has_many_dims =
      std::any_of(consumer.arrays.begin(), consumer.arrays.end(),
                  [](const ArraySpec& array) {
                    return array.shape.num_dims() > kMaxArrayDims;
                  });
  if (consumer.arrays.size() > kMaxArraysPerItem || has_many_dims) {
    return absl::InvalidArgumentError(
        absl::StrCat("items of consumer id ", consumer.id, " have more than ",
                     kMaxArraysPerItem, " arrays or ", kMaxArrayDims,
                     " dimensions, and cannot be sent to another process"));
  }
  return absl::OkStatus();
}

absl::Status ParcelPacker::Define(const OutfeedConsumer& consumer) {
  RETURN_IF_ERROR(Add(
      DefineEntry{consumer.id, static_cast<uint32_t>(consumer.arrays.size())}));
  for (const ArraySpec& array : consumer.arrays) {
    RETURN_IF_ERROR(Add(SpecEntry{array}));
  }
  defined_.insert(consumer.id);
  return absl::OkStatus();
}

absl::Status ParcelPacker::AddArray(Tensor& array) {
  const size_t num_bytes = array.size_bytes();
  const auto cost = static_cast<int64_t>(num_bytes) + kEntryCostBytes;
  if (num_bytes <= kMaxInlineBytes) {
    RETURN_IF_ERROR(Add(InlineEntry{{array.data(), num_bytes}}));
    open_.cost_bytes += cost;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Add(LargeEntry()));
  loans_.push_back({.kind = StreamTag::kLargeArray,
                    .number = num_large_arrays_++,
                    .bytes = std::move(array),
                    .cost_bytes = cost});
  return absl::OkStatus();
}

absl::Status ParcelPacker::AddEnd(absl::Status status) {
  absl::Status added = Add(EndEntry{std::move(status)});
  if (added.ok()) CloseOpen();
  return added;
}

void ParcelPacker::CloseOpen() {
  writer_.Finish();
  writer_ = ParcelWriter();
  loans_.push_back(std::exchange(open_, {}));
}

template <typename Entry>
absl::Status ParcelPacker::Add(const Entry& entry) {
  if (writer_.Add(entry)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      Tensor parcel,
      Tensor::Allocate(DType::kUint8, TensorShape::Vector(kParcelBytes)));
  if (has_open()) CloseOpen();
  open_ = {.kind = StreamTag::kParcel,
           .number = num_parcels_++,
           .bytes = std::move(parcel)};
  writer_ =
      ParcelWriter(absl::MakeSpan(open_.bytes.mutable_data(), kParcelBytes));
  writer_.Add(entry);  // An entry within the bounds fits.
  return absl::OkStatus();
}

}  // namespace tutti
