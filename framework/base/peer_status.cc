#include "framework/base/peer_status.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace tutti {

absl::Status PeerStatus(absl::StatusCode code, absl::string_view message) {
  std::string printable;
  printable.reserve(message.size());
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_iscntrl(byte)) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable.push_back(c);
    }
  }
  return absl::Status(code, printable);
}

}  // namespace tutti
