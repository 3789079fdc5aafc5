#include "framework/base/peer_status.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace tutti {

std::string Printable(absl::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_iscntrl(byte)) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable.push_back(c);
    }
  }
  return printable;
}

absl::Status PeerStatus(absl::StatusCode code, absl::string_view message) {
  return absl::Status(code, Printable(message));
}

}  // namespace tutti
