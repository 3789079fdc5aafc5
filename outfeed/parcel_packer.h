#ifndef TUTTI_OUTFEED_PARCEL_PACKER_H_
#define TUTTI_OUTFEED_PARCEL_PACKER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/parcel.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {

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

#endif  // TUTTI_OUTFEED_PARCEL_PACKER_H_
