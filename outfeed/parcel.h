#ifndef TUTTI_OUTFEED_PARCEL_H_
#define TUTTI_OUTFEED_PARCEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/outfeed.h"

namespace tutti {

// What goes from the sending end of an outfeed to the receiving one: parcels,
// all of one size, each with at least one entry. Entries do not cross parcels,
// items do. Numbers are little-endian. Pure.
inline constexpr size_t kParcelBytes = 4096;

// An array above this goes by itself, as one below it may.
inline constexpr size_t kMaxInlineBytes = 1024;

// Bounds on what one end has to remember.
inline constexpr uint32_t kMaxArraysPerItem = 65536;
inline constexpr size_t kMaxConsumersPerStream = 65536;
inline constexpr int kMaxArrayDims = 255;

// The messages of longer ones are cut.
inline constexpr size_t kMaxEndMessageBytes = 2048;

// The first items of a consumer follow its definition: this and a SpecEntry for
// each array.
struct DefineEntry {
  uint32_t consumer_id = 0;
  uint32_t num_arrays = 0;
};
struct SpecEntry {
  ArraySpec spec;
};

// An item: this, and an InlineEntry or a LargeEntry for each array.
struct ItemEntry {
  uint32_t consumer_id = 0;
};
struct InlineEntry {
  absl::Span<const std::byte> bytes;
};
struct LargeEntry {};  // A transfer by itself has the bytes.

// The last one: an orderly end, or what broke the stream. One that says
// RESOURCE_EXHAUSTED may come in the middle of an item or a definition, which
// is then dropped; the others come between them.
struct EndEntry {
  absl::Status status;
};

using ParcelEntry = std::variant<DefineEntry, SpecEntry, ItemEntry, InlineEntry,
                                 LargeEntry, EndEntry>;

// Writes entries into memory of kParcelBytes. The Add()s return false, having
// written nothing, for what does not fit; an empty parcel has room for any one
// entry within the bounds.
class ParcelWriter {
 public:
  ParcelWriter() = default;  // Has no room.
  explicit ParcelWriter(absl::Span<std::byte> parcel) : parcel_(parcel) {}

  bool Add(const DefineEntry& entry);
  bool Add(const SpecEntry& entry);
  bool Add(const ItemEntry& entry);
  bool Add(const InlineEntry& entry);
  bool Add(const LargeEntry& entry);
  bool Add(const EndEntry& entry);

  bool empty() const { return size_ == 0; }

  // Nothing is added after this.
  void Finish();

 private:
  bool Begin(uint8_t kind, size_t num_bytes);
  template <typename T>
  void Put(T value);
  void PutBytes(const void* bytes, size_t num_bytes);

  absl::Span<std::byte> parcel_;
  size_t size_ = 0;
};

// Reads what a peer has written; believes nothing.
class ParcelReader {
 public:
  ParcelReader() = default;  // At the end of one.
  explicit ParcelReader(absl::Span<const std::byte> parcel)
      : parcel_(parcel), num_read_(0) {}

  // The next entry, whose bytes are the parcel's; none at its end. Errors:
  // INVALID_ARGUMENT for what no ParcelWriter writes. REQUIRES: not at the end,
  // no error before.
  absl::StatusOr<std::optional<ParcelEntry>> Next();

 private:
  absl::StatusOr<ParcelEntry> Read(uint8_t kind);
  absl::StatusOr<ParcelEntry> ReadDefine();
  absl::StatusOr<ParcelEntry> ReadSpec();
  absl::StatusOr<ParcelEntry> ReadItem();
  absl::StatusOr<ParcelEntry> ReadInline();
  absl::StatusOr<ParcelEntry> ReadEnd();

  // False if the parcel has no so many bytes.
  template <typename T>
  bool Get(T& value);
  bool GetBytes(size_t num_bytes, absl::Span<const std::byte>& bytes);

  absl::Span<const std::byte> parcel_;  // What is left.
  size_t num_read_ = 0;                 // Entries.
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_PARCEL_H_
