#ifndef TUTTI_OUTFEED_FRAME_H_
#define TUTTI_OUTFEED_FRAME_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tutti/tensor.h"

namespace tutti {

// An item of an outfeed is a header and then its arrays. The header is an array
// too: uint8[8], which holds two uint32, little-endian: the start marker and
// the id of the consumer, which says how many arrays follow and which.
inline constexpr uint32_t kOutfeedStart = 271828;

// The id of a header without arrays, which ends the stream.
inline constexpr uint32_t kShutdownConsumerId = 0;

// The header of items for a consumer. Every call makes another buffer.
absl::StatusOr<Tensor> MakeHeader(uint32_t consumer_id);

// Never fails: it is the same memory for all.
Tensor ShutdownHeader();

// Whether this is what ShutdownHeader() returns, and not just equal to it.
bool IsShutdownHeader(const Tensor& array);

// The consumer's id. Errors: INVALID_ARGUMENT for what is no header, with what
// was found.
absl::StatusOr<uint32_t> ReadHeader(const Tensor& header);

}  // namespace tutti

#endif  // TUTTI_OUTFEED_FRAME_H_
