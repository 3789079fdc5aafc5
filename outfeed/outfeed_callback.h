#ifndef TUTTI_OUTFEED_OUTFEED_CALLBACK_H_
#define TUTTI_OUTFEED_OUTFEED_CALLBACK_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/device.h"
#include "framework/tensor.h"

namespace tutti {

// Gets one item of the outfeed of `device`; may take the arrays. What it
// returns other than OK, or throws, ends the device's stream.
using OutfeedCallback = std::function<absl::Status(
    Device& device, uint32_t consumer_id, absl::Span<Tensor> arrays)>;

}  // namespace tutti

#endif  // TUTTI_OUTFEED_OUTFEED_CALLBACK_H_
