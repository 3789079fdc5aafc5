#ifndef TUTTI_OUTFEED_FRAME_H_
#define TUTTI_OUTFEED_FRAME_H_

#include <cstdint>

#include "absl/status/statusor.h"
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

// Returns the consumer's id. Errors: INVALID_ARGUMENT, with the bytes found, if
// `header` is no header.
absl::StatusOr<uint32_t> ReadHeader(const Tensor& header);

}  // namespace tutti

#endif  // TUTTI_OUTFEED_FRAME_H_
