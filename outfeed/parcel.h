#ifndef TUTTI_OUTFEED_PARCEL_H_
#define TUTTI_OUTFEED_PARCEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

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

// Packs items for the receiving end: into parcels, and large arrays by
// reference. One thread at a time. Pure.
class ParcelPacker {
 public:
  struct Loan {
    StreamTag kind = StreamTag::kParcel;
    uint64_t number = 0;  // Counted per kind.
    Tensor bytes;
    int64_t cost_bytes = 0;  // Share of the items' CostOf().
  };

  // Bytes of the window that an item takes.
  static int64_t CostOf(const OutfeedConsumer& consumer);

  // Moves large arrays out of `arrays`, and copies the others. Errors:
  // INVALID_ARGUMENT for an item beyond the bounds of a stream: nothing was
  // added. RESOURCE_EXHAUSTED if there is no memory: part of the item or its
  // definition may have been added. After an error only AddEnd() may be called,
  // with that status.
  absl::Status AddItem(const OutfeedConsumer& consumer,
                       absl::Span<Tensor> arrays);

  // Adds the last entry. Errors: RESOURCE_EXHAUSTED.
  absl::Status AddEnd(absl::Status status);

  // True if a parcel has entries and is not closed.
  bool has_open() const { return open_.bytes.is_set(); }
  void CloseOpen();

  // Takes the complete parcels and the large arrays, in any order.
  std::vector<Loan> TakeLoans() { return std::exchange(loans_, {}); }
  bool has_loans() const { return !loans_.empty(); }

 private:
  absl::Status CheckBounds(const OutfeedConsumer& consumer) const;
  absl::Status Define(const OutfeedConsumer& consumer);
  absl::Status AddArray(Tensor& array);

  // Adds to the open parcel, or to a new one.
  template <typename Entry>
  absl::Status Add(const Entry& entry);

  Loan open_;  // Without bytes: no parcel is open.
  ParcelWriter writer_;
  std::vector<Loan> loans_;
  uint64_t num_parcels_ = 0;
  uint64_t num_large_arrays_ = 0;
  absl::flat_hash_set<uint32_t> defined_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_PARCEL_H_
