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

// Codec between requests, decisions and their messages. The decoding functions
// check all input from peers; their errors are INVALID_ARGUMENT. Pure.

void EncodeTensorRequest(const TensorRequest& request,
                         proto::TensorRequest* message);

// Decodes a request whose name is `name_head` plus the name in the message.
absl::StatusOr<TensorRequest> DecodeTensorRequest(
    std::string name_head, const proto::TensorRequest& message);

// Encodes a set of slots as a bit per slot.
std::string EncodeSlots(absl::Span<const uint32_t> slots);
std::vector<uint32_t> DecodeSlots(const std::string& bits);

// Encodes the part of the decision that `rank` receives.
proto::Decision EncodeDecision(const Negotiation::Decision& decision, int rank);

// Checks that a decision suits the rank's requests. `requests` are the requests
// that the message names, in the order of the message. An ended request may
// have any content.
absl::Status CheckDecision(const proto::Decision& message,
                           absl::Span<const TensorRequest* const> requests,
                           int rank, int num_ranks);

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_COORDINATOR_CODEC_H_
