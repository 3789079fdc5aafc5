#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_PART_FEEDER_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_PART_FEEDER_H_

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {

// Gives a receiver the bytes of one transfer, in order of arrival, as parts of
// whole elements. Parts are not copied, except for elements that are split.
//
// Belongs to one thread at a time.
class PartFeeder {
 public:
  // REQUIRES: the dtype is valid.
  explicit PartFeeder(const RecvRequest& recv) : recv_(recv) {}

  // Feeds the next bytes. Errors: the receiver's; feed no more bytes then.
  absl::Status Feed(absl::Span<const std::byte> bytes);

 private:
  absl::Status Give(absl::Span<const std::byte> part);

  // Completes the split element from the front of `bytes`.
  absl::Status Mend(absl::Span<const std::byte>& bytes);

  const RecvRequest recv_;
  size_t given_bytes_ = 0;

  static constexpr size_t kLargestElementBytes = std::ranges::max(
      ForEachDType([](auto element) { return sizeof(element); }));

  // Beginning of an element whose rest has not come yet.
  std::array<std::byte, kLargestElementBytes> torn_ = {};
  size_t num_torn_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_PART_FEEDER_H_
