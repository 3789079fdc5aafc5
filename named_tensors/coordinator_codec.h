#ifndef TUTTI_NAMED_TENSORS_COORDINATOR_CODEC_H_
#define TUTTI_NAMED_TENSORS_COORDINATOR_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "named_tensors/negotiation.h"
#include "named_tensors/tensor_request.h"
#include "proto/control.pb.h"

namespace tutti {

// Between requests for named tensors, what is decided about them, and the
// messages that say so. What a peer sends is checked in full; errors are
// INVALID_ARGUMENT. Pure.

void EncodeTensorRequest(const TensorRequest& request,
                         proto::TensorRequest* message);

// `name_head` comes before the name in the message.
absl::StatusOr<TensorRequest> DecodeTensorRequest(
    std::string name_head, const proto::TensorRequest& message);

// A bit for each of the slots.
std::string EncodeSlots(absl::Span<const uint32_t> slots);
std::vector<uint32_t> DecodeSlots(const std::string& bits);

// What a rank is told of a decision that concerns it.
proto::Decision EncodeDecision(const Negotiation::Decision& decision, int rank);

// Whether what runs suits what the rank has asked for: `requests` are those
// that the message names, in its order. An ended request may be any.
absl::Status CheckDecision(const proto::Decision& message,
                           absl::Span<const TensorRequest* const> requests,
                           int rank, int num_ranks);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_COORDINATOR_CODEC_H_
