#include "outfeed/parcel_packer.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Cost of an item and of each of its arrays, besides the payload.
constexpr int64_t kEntryCostBytes = 32;

}  // namespace

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
