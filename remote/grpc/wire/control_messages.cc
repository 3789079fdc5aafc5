#include "remote/grpc/wire/control_messages.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"

namespace tutti {

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  const grpc::Slice slice(size);
  // No other reader: the slice is new.
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status Parse(const grpc::ByteBuffer& bytes,
                   google::protobuf::MessageLite& message) {
  grpc::ByteBuffer buffer(bytes);  // The reader needs a mutable buffer.
  grpc::ProtoBufferReader reader(&buffer);
  if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a message of ", bytes.Length(), " bytes is no ", message.GetTypeName()));
}

}  // namespace tutti
