#include "remote/grpc/transfers/part_feeder.h"

#include <algorithm>
#include <cstring>

#include "framework/base/status_macros.h"
#include "tutti/tensor.h"

namespace tutti {

absl::Status PartFeeder::Feed(absl::Span<const std::byte> bytes) {
  RETURN_IF_ERROR(Mend(bytes));
  const size_t num_torn = bytes.size() % SizeOf(recv_.dtype);
  absl::Status status = Give(bytes.first(bytes.size() - num_torn));
  if (num_torn > 0) {
    std::memcpy(torn_.data(), bytes.last(num_torn).data(), num_torn);
    num_torn_ = num_torn;
  }
  return status;
}

absl::Status PartFeeder::Give(absl::Span<const std::byte> part) {
  if (part.empty()) return absl::OkStatus();
  const size_t offset = given_bytes_;
  given_bytes_ += part.size();
  return recv_.receiver->OnPart(recv_.id, offset, part);
}

absl::Status PartFeeder::Mend(absl::Span<const std::byte>& bytes) {
  if (num_torn_ == 0) return absl::OkStatus();
  const size_t size = SizeOf(recv_.dtype);
  const size_t num_new = std::min(size - num_torn_, bytes.size());
  if (num_new > 0) {
    std::memcpy(torn_.data() + num_torn_, bytes.data(), num_new);
  }
  bytes.remove_prefix(num_new);
  num_torn_ += num_new;
  if (num_torn_ < size) return absl::OkStatus();
  num_torn_ = 0;
  return Give(absl::MakeConstSpan(torn_.data(), size));
}

}  // namespace tutti
