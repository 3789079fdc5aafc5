#ifndef TUTTI_REMOTE_GRPC_WIRE_CONTROL_MESSAGES_H_
#define TUTTI_REMOTE_GRPC_WIRE_CONTROL_MESSAGES_H_

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"

namespace tutti {

inline constexpr char kControlMethod[] = "/tutti.Control/Call";
inline constexpr char kTransferMethod[] = "/tutti.Transfers/Pull";

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// Errors: INVALID_ARGUMENT if the bytes are no such message.
absl::Status Parse(const grpc::ByteBuffer& bytes,
                   google::protobuf::MessageLite& message);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_WIRE_CONTROL_MESSAGES_H_
