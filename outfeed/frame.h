#ifndef TUTTI_OUTFEED_FRAME_H_
#define TUTTI_OUTFEED_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {

// An item of an outfeed is a header, followed by the item's arrays. The header
// is an array, too: uint8[8]. It holds two uint32, little-endian: the start
// marker and the id of the consumer. The consumer defines number and kind of
// the arrays.
inline constexpr uint32_t kOutfeedStart = 271828;

// Id of a header without arrays, which ends the stream.
inline constexpr uint32_t kShutdownConsumerId = 0;

// Makes the header of items for a consumer, in a new buffer.
absl::StatusOr<Tensor> MakeHeader(uint32_t consumer_id);

// Returns the header that ends a stream. Never fails: all calls share one
// buffer.
Tensor ShutdownHeader();

// True for the buffer of ShutdownHeader(); false for an equal copy.
bool IsShutdownHeader(const Tensor& array);

// Adds the name of the device whose outfeed has failed.
absl::Status OutfeedError(const absl::Status& status, absl::string_view device);

// Returns the consumer's id. Errors: INVALID_ARGUMENT, with the bytes found, if
// `header` is no header.
absl::StatusOr<uint32_t> ReadHeader(const Tensor& header);

// Checks array `index` of an item of the consumer, as a device sends it.
// Errors: INVALID_ARGUMENT for another type or shape, and for the header that
// ends the stream.
absl::Status CheckPayload(const OutfeedConsumer& consumer, size_t index,
                          const Tensor& array);

// Error of an item of the consumer that has another number of arrays.
absl::Status NumArraysError(const OutfeedConsumer& consumer, size_t found);

// Returns a new tensor that holds the bytes. REQUIRES: they have its size.
absl::StatusOr<Tensor> CopyOf(DType dtype, const TensorShape& shape,
                              absl::Span<const std::byte> bytes);

}  // namespace tutti

#endif  // TUTTI_OUTFEED_FRAME_H_
