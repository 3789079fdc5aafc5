#include "framework/control/wire_codec.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/peer_status.h"

namespace tutti {
namespace {

constexpr size_t kMaxMessageBytes = 4096;
constexpr int kLastCode = static_cast<int>(absl::StatusCode::kUnauthenticated);

}  // namespace

proto::Error EncodeError(const absl::Status& status) {
  proto::Error message;
  message.set_code(static_cast<int>(status.code()));
  message.set_message(
      std::string(status.message().substr(0, kMaxMessageBytes)));
  return message;
}

absl::Status CheckError(const proto::Error& message) {
  if (message.code() < 1 || message.code() > kLastCode) {
    return absl::InvalidArgumentError(absl::StrCat(
        "error.code is ", message.code(), "; wanted 1 to ", kLastCode));
  }
  if (message.message().size() <= kMaxMessageBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("error.message has ", message.message().size(),
                   " bytes; wanted at most ", kMaxMessageBytes));
}

absl::Status DecodeError(const proto::Error& message) {
  const absl::Status status = CheckError(message);
  if (!status.ok()) {
    return absl::UnknownError(
        absl::StrCat("an error that was not understood: ", status.message()));
  }
  return PeerStatus(static_cast<absl::StatusCode>(message.code()),
                    message.message());
}

proto::ExecutionKey EncodeKey(const ExecKey& key) {
  proto::ExecutionKey message;
  message.set_generation(key.generation);
  message.set_step(key.step);
  message.set_group(key.group);
  message.set_instance(key.instance);
  message.set_execution(key.execution);
  return message;
}

ExecKey DecodeKey(const proto::ExecutionKey& message) {
  return {message.generation(), message.step(), message.group(),
          message.instance(), message.execution()};
}

}  // namespace tutti
