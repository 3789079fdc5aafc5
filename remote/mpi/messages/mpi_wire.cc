#include "remote/mpi/messages/mpi_wire.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/control/wire_codec.h"
#include "tutti/tensor.h"

namespace tutti {

void EncodePull(const PullRequest& request, proto::MpiPull& message) {
  *message.mutable_execution() = EncodeKey(request.key.exec);
  message.set_tag(request.key.tag);
  message.set_from_rank(request.key.from);
  message.set_to_rank(request.key.to);
  message.set_num_bytes(request.recv.num_bytes);
  message.set_dtype(static_cast<int>(request.recv.dtype));
  message.set_incarnation(request.recv.incarnation);
  message.set_payload_tag(request.payload_tag);
  message.set_may_read_memory(request.may_read_memory);
}

absl::StatusOr<PullRequest> DecodePull(const proto::MpiPull& message) {
  const int dtype = message.dtype();
  if (dtype < 0 || dtype > std::numeric_limits<uint8_t>::max() ||
      !IsValid(static_cast<DType>(dtype))) {
    return absl::InvalidArgumentError(
        absl::StrCat("pull.dtype is ", dtype, ", which is none"));
  }
  const uint64_t num_bytes = message.num_bytes();
  const size_t element = SizeOf(static_cast<DType>(dtype));
  if (num_bytes % element != 0 || num_bytes >= uint64_t{1} << 62) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pull.num_bytes is ", num_bytes, ", of elements of ", element));
  }
  const bool is_inline = num_bytes <= kMaxInlineBytes;
  const bool has_no_tag = is_inline || message.may_read_memory();
  if (message.payload_tag() < 0 || (message.payload_tag() == 0) != has_no_tag) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pull.payload_tag is ", message.payload_tag(), " for ", num_bytes,
        " bytes", message.may_read_memory() ? " that are to be read" : ""));
  }
  if (is_inline && message.may_read_memory()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pull.may_read_memory is set for ", num_bytes, " bytes"));
  }
  return PullRequest{.key = {.exec = DecodeKey(message.execution()),
                             .tag = message.tag(),
                             .from = message.from_rank(),
                             .to = message.to_rank()},
                     .recv = {.num_bytes = static_cast<size_t>(num_bytes),
                              .dtype = static_cast<DType>(dtype),
                              .incarnation = message.incarnation()},
                     .payload_tag = message.payload_tag(),
                     .may_read_memory = message.may_read_memory()};
}

}  // namespace tutti
