#ifndef TUTTI_OUTFEED_STREAM_READER_H_
#define TUTTI_OUTFEED_STREAM_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// Reads the parcels of a stream, one after the other. Accepts only whole items
// of defined ids, whose arrays have the sizes of the definition. One thread at
// a time. Pure, except that it registers the stream's consumers in the
// registry.
class StreamReader {
 public:
  explicit StreamReader(std::shared_ptr<OutfeedRegistry> registry)
      : registry_(std::move(registry)) {}

  // End of the parcel; reading continues with the next parcel.
  struct ParcelEnd {};

  // Start of an item. An InlineArray or a LargeArray for each of the consumer's
  // arrays follows.
  struct Header {
    const OutfeedConsumer* consumer = nullptr;  // Owned by the registry.
  };
  struct InlineArray {
    const ArraySpec* spec = nullptr;
    absl::Span<const std::byte> bytes;  // In the parcel; of the spec's size.
  };
  struct LargeArray {
    const ArraySpec* spec = nullptr;
    size_t num_bytes = 0;  // At least 1.
  };

  // End of the stream.
  struct End {
    absl::Status status;
  };
  using Step = std::variant<ParcelEnd, Header, InlineArray, LargeArray, End>;

  // REQUIRES: the first call, or Next() has returned ParcelEnd.
  void Begin(absl::Span<const std::byte> parcel) {
    parcel_ = ParcelReader(parcel);
  }

  // Errors, after which Next() must not be called: INVALID_ARGUMENT for bytes
  // that no sending end writes, and for a consumer registered with different
  // arrays. RESOURCE_EXHAUSTED for too many consumers, and if the sending end
  // reports that it had no memory for the rest of an item.
  absl::StatusOr<Step> Next();

 private:
  // Place in the stream. In a definition or an item, `num_left_` arrays follow.
  enum class Place { kBetween, kDefinition, kItem };

  // Return a step, or none for part of a definition.
  using MaybeStep = absl::StatusOr<std::optional<Step>>;
  MaybeStep Take(const DefineEntry& entry);
  MaybeStep Take(const SpecEntry& entry);
  MaybeStep Take(const ItemEntry& entry);
  MaybeStep Take(const InlineEntry& entry);
  MaybeStep Take(const LargeEntry& entry);
  MaybeStep Take(const EndEntry& entry);
  absl::Status Expect(Place place) const;
  MaybeStep RegisterIfComplete();
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
