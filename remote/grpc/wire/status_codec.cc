#include "remote/grpc/wire/status_codec.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/peer_status.h"
#include "remote/grpc/wire/transfer_wire.h"

namespace tutti {
namespace {

// Returns the number of bytes that gRPC makes of one byte of a message.
size_t NumEncoded(char byte) {
  const bool stays = byte >= 0x20 && byte <= 0x7e && byte != '%';
  return stays ? 1 : 3;
}

// Returns how much of a message fits into kMaxStatusMessageBytes on the wire.
size_t NumThatFit(absl::string_view message) {
  size_t num_encoded = 0;
  size_t size = 0;
  for (; size < message.size(); ++size) {
    num_encoded += NumEncoded(message[size]);
    if (num_encoded > kMaxStatusMessageBytes) break;
  }
  return size;
}

// Cause of a failure, and the text of gRPC that shows it.
struct Cause {
  absl::string_view sign;
  absl::StatusCode code;
  absl::string_view words;
};

// The first match counts.
constexpr Cause kCauses[] = {
    {"is not in peer certificate", absl::StatusCode::kPermissionDenied,
     "its certificate names another task"},
    {"Hostname Verification", absl::StatusCode::kPermissionDenied,
     "its certificate names another task"},
    {"certificate verify failed", absl::StatusCode::kUnauthenticated,
     "its certificate is not valid here: another CA, or expired"},
    {"CERTIFICATE_VERIFY_FAILED", absl::StatusCode::kUnauthenticated,
     "its certificate is not valid here: another CA, or expired"},
    {"wrong version number", absl::StatusCode::kFailedPrecondition,
     "it does not speak TLS, this task does"},
    {"WRONG_VERSION_NUMBER", absl::StatusCode::kFailedPrecondition,
     "it does not speak TLS, this task does"},
    {"unsupported protocol", absl::StatusCode::kFailedPrecondition,
     "it does not speak TLS 1.3"},
    {"protocol version", absl::StatusCode::kFailedPrecondition,
     "it does not speak TLS 1.3"},
    {"Too many open files", absl::StatusCode::kResourceExhausted,
     "this process has no file descriptor left (ulimit -n)"},
    {"Connection refused", absl::StatusCode::kUnavailable, kRefused},
    {"onnection reset", absl::StatusCode::kUnavailable, kClosed},
    {"Socket closed", absl::StatusCode::kUnavailable, kClosed},
    {"Broken pipe", absl::StatusCode::kUnavailable, kClosed},
    {"GOAWAY", absl::StatusCode::kUnavailable, kClosed},
    {"Cancelling all calls", absl::StatusCode::kUnavailable, kClosed},
    {"EOF", absl::StatusCode::kUnavailable, kClosed},
    {"Endpoint read failed", absl::StatusCode::kUnavailable, kClosed},
    {"Handshake read failed", absl::StatusCode::kUnavailable, kClosed},
    {"Transport closed", absl::StatusCode::kUnavailable, kClosed},
    {"Failed parsing HTTP/2", absl::StatusCode::kUnavailable, kNoTask},
    {"http2 header with status", absl::StatusCode::kUnavailable, kNoTask},
    {"imed out", absl::StatusCode::kUnavailable, "no answer"},
    {"eepalive", absl::StatusCode::kUnavailable, "no answer"},
    {"tcp handshaker shutdown", absl::StatusCode::kUnavailable, "no answer"},
    {"No route to host", absl::StatusCode::kUnavailable, "no route to host"},
    {"Network is unreachable", absl::StatusCode::kUnavailable,
     "network unreachable"},
    {"DNS resolution failed", absl::StatusCode::kUnavailable,
     "its host name cannot be resolved"},
};

}  // namespace

std::string Cut(absl::string_view text, size_t size) {
  if (text.size() <= size) return std::string(text);
  // Bytes 10xxxxxx continue a character of UTF-8.
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) {
    --size;
  }
  return std::string(text.substr(0, size));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Cut(status.message(), NumThatFit(status.message())));
}

absl::Status FromGrpc(const grpc::Status& status) {
  return PeerStatus(static_cast<absl::StatusCode>(status.error_code()),
                    status.error_message());
}

absl::Status ConnectionError(absl::string_view peer,
                             const grpc::Status& status) {
  const std::string text = Printable(status.error_message());
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    // Cancelled by the other side, which ends its calls when it shuts down.
    return ConnectionClosed(peer);
  }
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        absl::StrCat(peer, ": ", text));
  }
  const auto cause = std::find_if(
      std::begin(kCauses), std::end(kCauses),
      [&](const Cause& c) { return absl::StrContains(text, c.sign); });
  if (cause == std::end(kCauses)) {
    return absl::UnavailableError(absl::StrCat(peer, ": ", text));
  }
  return absl::Status(cause->code, absl::StrCat(peer, ": ", cause->words));
}

absl::Status ConnectionClosed(absl::string_view peer) {
  return absl::UnavailableError(absl::StrCat(peer, ": ", kClosed));
}

}  // namespace tutti
