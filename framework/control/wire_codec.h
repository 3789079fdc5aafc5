#ifndef TUTTI_FRAMEWORK_CONTROL_WIRE_CODEC_H_
#define TUTTI_FRAMEWORK_CONTROL_WIRE_CODEC_H_

#include "absl/status/status.h"
#include "proto/control.pb.h"
#include "tutti/peer_access.h"

namespace tutti {

// Parts shared by several kinds of messages. Pure.

// Encodes a status, with the first few thousand bytes of its message.
proto::Error EncodeError(const absl::Status& status);

// Errors: INVALID_ARGUMENT for an unknown code, for OK, and for a message
// longer than EncodeError() keeps.
absl::Status CheckError(const proto::Error& message);

// Decodes an error. Returns UNKNOWN, with an explanation, if `message` is
// invalid.
absl::Status DecodeError(const proto::Error& message);

proto::ExecutionKey EncodeKey(const ExecKey& key);
ExecKey DecodeKey(const proto::ExecutionKey& message);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CONTROL_WIRE_CODEC_H_
