#ifndef TUTTI_OUTFEED_PARCEL_PACKER_H_
#define TUTTI_OUTFEED_PARCEL_PACKER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/parcel.h"
#include "outfeed/stream_tags.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {

// Makes of items what is lent to the receiving end: parcels, and large arrays
// where they lie. For one thread at a time. Pure.
class ParcelPacker {
 public:
  struct Loan {
    StreamTag kind = StreamTag::kParcel;
    uint64_t number = 0;  // Of those of its kind.
    Tensor bytes;
    int64_t cost_bytes = 0;  // Its share of the items' CostOf().
  };

  // What an item takes of the window.
  static int64_t CostOf(const OutfeedConsumer& consumer);

  // Takes the arrays that are lent out of `arrays`; the others are copied.
  // Errors: INVALID_ARGUMENT for an item that is beyond the bounds of a stream,
  // with which nothing was added; RESOURCE_EXHAUSTED if there is no memory,
  // with which a part of it, or of its definition, may have been. After that
  // only AddEnd() is called, with that status.
  absl::Status AddItem(const OutfeedConsumer& consumer,
                       absl::Span<Tensor> arrays);

  // The last one. Errors: RESOURCE_EXHAUSTED.
  absl::Status AddEnd(absl::Status status);

  // There is a parcel that is not full.
  bool has_open() const { return open_.bytes.is_set(); }
  void CloseOpen();

  // Those that are complete, in any order.
  std::vector<Loan> TakeLoans() { return std::exchange(loans_, {}); }
  bool has_loans() const { return !loans_.empty(); }

 private:
  absl::Status CheckBounds(const OutfeedConsumer& consumer) const;
  absl::Status Define(const OutfeedConsumer& consumer);
  absl::Status AddArray(Tensor& array);

  // Into the open parcel, or a new one.
  template <typename Entry>
  absl::Status Add(const Entry& entry);

  Loan open_;  // No bytes if there is none.
  ParcelWriter writer_;
  std::vector<Loan> loans_;
  uint64_t num_parcels_ = 0;
  uint64_t num_large_arrays_ = 0;
  absl::flat_hash_set<uint32_t> defined_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_PARCEL_PACKER_H_
