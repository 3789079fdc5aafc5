#ifndef TUTTI_FRAMEWORK_CONTROL_WIRE_CODEC_H_
#define TUTTI_FRAMEWORK_CONTROL_WIRE_CODEC_H_

#include "absl/status/status.h"
#include "proto/control.pb.h"
#include "tutti/peer_access.h"

namespace tutti {

// Parts of messages that several kinds of them have. Pure.

// Keeps the first few thousand bytes of the message.
proto::Error EncodeError(const absl::Status& status);

// Errors: INVALID_ARGUMENT for a code that is none, or is OK, and for a message
// that is longer than what EncodeError() keeps.
absl::Status CheckError(const proto::Error& message);

// UNKNOWN, saying so, for one that is wrong.
absl::Status DecodeError(const proto::Error& message);

proto::ExecutionKey EncodeKey(const ExecKey& key);
ExecKey DecodeKey(const proto::ExecutionKey& message);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CONTROL_WIRE_CODEC_H_
