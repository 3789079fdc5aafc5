#ifndef TUTTI_OUTFEED_STREAM_READER_H_
#define TUTTI_OUTFEED_STREAM_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "outfeed/parcel.h"
#include "tutti/outfeed.h"

namespace tutti {

// What the parcels of one stream say, one after the other: only whole items of
// ids that were defined before, whose arrays have the sizes of the definition.
// For one thread at a time. Pure but for the registry, where it registers the
// consumers that the stream defines.
class StreamReader {
 public:
  explicit StreamReader(std::shared_ptr<OutfeedRegistry> registry)
      : registry_(std::move(registry)) {}

  // The parcel has been read; the next one goes on.
  struct ParcelEnd {};

  // An item: its consumer, and then an InlineArray or a LargeArray for each of
  // the consumer's arrays.
  struct Header {
    const OutfeedConsumer* consumer = nullptr;  // As long as the registry.
  };
  struct InlineArray {
    const ArraySpec* spec = nullptr;
    absl::Span<const std::byte> bytes;  // The parcel's; as many as the spec's.
  };
  struct LargeArray {
    const ArraySpec* spec = nullptr;
    size_t num_bytes = 0;  // At least one.
  };

  // Nothing follows.
  struct End {
    absl::Status status;
  };
  using Step = std::variant<ParcelEnd, Header, InlineArray, LargeArray, End>;

  // REQUIRES: before the first one, or Next() has returned ParcelEnd.
  void Begin(absl::Span<const std::byte> parcel) {
    parcel_ = ParcelReader(parcel);
  }

  // Errors, after which this is not called again: INVALID_ARGUMENT for what no
  // sending end writes, and for a consumer whose arrays are registered
  // otherwise; RESOURCE_EXHAUSTED for too many of them, and, as the sending end
  // says it, where that had no memory for the rest of an item.
  absl::StatusOr<Step> Next();

 private:
  // The definition or item that is being read, with `num_left_` arrays to come.
  enum class Place { kBetween, kDefinition, kItem };

  absl::Status Take(const DefineEntry& entry);
  absl::Status Take(const SpecEntry& entry);
  absl::StatusOr<Step> Take(const ItemEntry& entry);
  absl::StatusOr<Step> Take(const InlineEntry& entry);
  absl::StatusOr<Step> Take(const LargeEntry& entry);
  absl::StatusOr<Step> Take(const EndEntry& entry);
  absl::Status Expect(Place place) const;
  absl::Status RegisterIfComplete();
  const ArraySpec& NextArray();

  std::shared_ptr<OutfeedRegistry> registry_;
  ParcelReader parcel_;
  Place place_ = Place::kBetween;
  uint32_t num_left_ = 0;
  uint32_t defined_id_ = 0;
  std::vector<ArraySpec> defined_arrays_;
  const OutfeedConsumer* consumer_ = nullptr;
  absl::flat_hash_map<uint32_t, const OutfeedConsumer*> consumers_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_STREAM_READER_H_
