#ifndef TUTTI_OUTFEED_PARCEL_H_
#define TUTTI_OUTFEED_PARCEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/outfeed.h"

namespace tutti {

// Parcels carry an outfeed from its sending end to its receiving end. All have
// the same size, and at least one entry. An entry lies in one parcel; an item
// may span several. Numbers are little-endian. Pure.
inline constexpr size_t kParcelBytes = 4096;

// Largest array inside a parcel. Larger arrays get a separate transfer; smaller
// ones may.
inline constexpr size_t kMaxInlineBytes = 1024;

// Bounds on the memory of each end.
inline constexpr uint32_t kMaxArraysPerItem = 65536;
inline constexpr size_t kMaxConsumersPerStream = 65536;
inline constexpr int kMaxArrayDims = 255;

// Longest message of an EndEntry; longer messages are cut.
inline constexpr size_t kMaxEndMessageBytes = 2048;

// Definition of a consumer, before its first item: this entry, and a SpecEntry
// for each array.
struct DefineEntry {
  uint32_t consumer_id = 0;
  uint32_t num_arrays = 0;
};
struct SpecEntry {
  ArraySpec spec;
};

// An item: this entry, and an InlineEntry or a LargeEntry for each array.
struct ItemEntry {
  uint32_t consumer_id = 0;
};
struct InlineEntry {
  absl::Span<const std::byte> bytes;
};
struct LargeEntry {};  // The bytes come in a separate transfer.

// The last entry: an orderly end, or the error that broke the stream. With
// RESOURCE_EXHAUSTED it may come in the middle of an item or a definition,
// which is then dropped. Otherwise it comes between items.
struct EndEntry {
  absl::Status status;
};

using ParcelEntry = std::variant<DefineEntry, SpecEntry, ItemEntry, InlineEntry,
                                 LargeEntry, EndEntry>;

// Writes entries into memory of kParcelBytes. Add() returns false, and writes
// nothing, if the entry does not fit. An empty parcel has room for any entry
// within the bounds.
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

  // Ends the parcel. REQUIRES: no Add() follows.
  void Finish();

 private:
  bool Begin(uint8_t kind, size_t num_bytes);
  template <typename T>
  void Put(T value);
  void PutBytes(const void* bytes, size_t num_bytes);

  absl::Span<std::byte> parcel_;
  size_t size_ = 0;
};

// Reads what a peer has written, and checks everything.
class ParcelReader {
 public:
  ParcelReader() = default;  // At the end of a parcel.
  explicit ParcelReader(absl::Span<const std::byte> parcel)
      : parcel_(parcel), num_read_(0) {}

  // Returns the next entry, whose bytes lie in the parcel; none at the end.
  // Errors: INVALID_ARGUMENT for bytes that no ParcelWriter writes. REQUIRES:
  // not called after the end or an error.
  absl::StatusOr<std::optional<ParcelEntry>> Next();

 private:
  absl::StatusOr<ParcelEntry> Read(uint8_t kind);
  absl::StatusOr<ParcelEntry> ReadDefine();
  absl::StatusOr<ParcelEntry> ReadSpec();
  absl::StatusOr<ParcelEntry> ReadItem();
  absl::StatusOr<ParcelEntry> ReadInline();
  absl::StatusOr<ParcelEntry> ReadEnd();

  // Returns false if the parcel has too few bytes left.
  template <typename T>
  bool Get(T& value);
  bool GetBytes(size_t num_bytes, absl::Span<const std::byte>& bytes);

  absl::Span<const std::byte> parcel_;  // Unread part.
  size_t num_read_ = 0;                 // Entries read.
};

// Kinds of transfers between the ends of an outfeed, for their tags. Each kind
// has separate numbers, which repeat after 2^28.
enum class StreamTag : uint8_t {
  // kCloseWord, from the receiving end to the sending end: stop sending.
  kClose,

  // Requested by both ends and never posted: its failure reports the link's
  // end.
  kWatch,

  // From the sending end to the receiving end, in order.
  kParcel,
  kLargeArray,
};

constexpr int32_t TagOf(StreamTag kind, uint64_t number) {
  constexpr uint64_t kNumbers = uint64_t{1} << 28;
  return static_cast<int32_t>((number % kNumbers) * 4 +
                              static_cast<uint64_t>(kind));
}

inline constexpr std::array<std::byte, 4> kCloseWord = {
    std::byte{'s'}, std::byte{'t'}, std::byte{'o'}, std::byte{'p'}};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_PARCEL_H_
