#include "outfeed/stream_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

size_t BytesOf(const ArraySpec& spec) {
  // No overflow: the registry has checked the size.
  return static_cast<size_t>(spec.shape.num_elements()) * SizeOf(spec.dtype);
}

absl::string_view NameOf(int place) {
  constexpr absl::string_view kNames[] = {"between items", "in a definition",
                                          "in an item"};
  return kNames[place];
}

}  // namespace

absl::StatusOr<StreamReader::Step> StreamReader::Next() {
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<ParcelEntry> entry, parcel_.Next());
    if (!entry.has_value()) return ParcelEnd();
    ASSIGN_OR_RETURN(
        std::optional<Step> step,
        std::visit([this](const auto& taken) { return Take(taken); }, *entry));
    if (step.has_value()) return *std::move(step);
  }
}

absl::Status StreamReader::Expect(Place place) const {
  if (place_ == place) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an outfeed stream has an entry that belongs ",
                   NameOf(static_cast<int>(place)), ", found ",
                   NameOf(static_cast<int>(place_))));
}

StreamReader::MaybeStep StreamReader::Take(const DefineEntry& entry) {
  RETURN_IF_ERROR(Expect(Place::kBetween));
  if (consumers_.contains(entry.consumer_id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an outfeed stream defines consumer id ", entry.consumer_id, " twice"));
  }
  if (consumers_.size() >= kMaxConsumersPerStream) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an outfeed stream defines more than ",
                     kMaxConsumersPerStream, " consumers"));
  }
  place_ = Place::kDefinition;
  defined_id_ = entry.consumer_id;
  num_left_ = entry.num_arrays;
  return RegisterIfComplete();
}

StreamReader::MaybeStep StreamReader::Take(const SpecEntry& entry) {
  RETURN_IF_ERROR(Expect(Place::kDefinition));
  defined_arrays_.push_back(entry.spec);
  --num_left_;
  return RegisterIfComplete();
}

StreamReader::MaybeStep StreamReader::RegisterIfComplete() {
  if (num_left_ > 0) return std::nullopt;
  place_ = Place::kBetween;
  RETURN_IF_ERROR(
      registry_->Register(defined_id_, std::exchange(defined_arrays_, {})));
  ASSIGN_OR_RETURN(const auto consumer, registry_->Find(defined_id_));
  consumers_.emplace(defined_id_, consumer);
  return std::nullopt;
}

StreamReader::MaybeStep StreamReader::Take(const ItemEntry& entry) {
  RETURN_IF_ERROR(Expect(Place::kBetween));
  const auto found = consumers_.find(entry.consumer_id);
  if (found == consumers_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("an outfeed stream has an item of consumer id ",
                     entry.consumer_id, ", which it did not define"));
  }
  consumer_ = found->second;
  num_left_ = static_cast<uint32_t>(consumer_->arrays.size());
  if (num_left_ > 0) place_ = Place::kItem;
  return Header{consumer_};
}

const ArraySpec& StreamReader::NextArray() {
  const ArraySpec& spec =
      consumer_->arrays[consumer_->arrays.size() - num_left_];
  if (--num_left_ == 0) place_ = Place::kBetween;
  return spec;
}

StreamReader::MaybeStep StreamReader::Take(const InlineEntry& entry) {
  RETURN_IF_ERROR(Expect(Place::kItem));
  const ArraySpec& spec = NextArray();
  if (entry.bytes.size() != BytesOf(spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an array of consumer id ", consumer_->id, " is ", spec.ToString(),
        ", found ", entry.bytes.size(), " bytes"));
  }
  return InlineArray{&spec, entry.bytes};
}

StreamReader::MaybeStep StreamReader::Take(const LargeEntry& /*entry*/) {
  RETURN_IF_ERROR(Expect(Place::kItem));
  const ArraySpec& spec = NextArray();
  if (BytesOf(spec) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("an empty array of consumer id ", consumer_->id,
                     " cannot come by itself"));
  }
  return LargeArray{&spec, BytesOf(spec)};
}

StreamReader::MaybeStep StreamReader::Take(const EndEntry& entry) {
  const bool breaks_off =
      place_ != Place::kBetween && absl::IsResourceExhausted(entry.status);
  if (breaks_off) return entry.status;
  RETURN_IF_ERROR(Expect(Place::kBetween));
  return End{entry.status};
}

}  // namespace tutti
