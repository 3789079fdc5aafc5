#include "tools/base/bounded_text.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// FNV-1a.
uint64_t Fingerprint(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::string BoundedText(const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const std::string end =
      absl::StrCat("... (", text.size(), " bytes, fingerprint ",
                   absl::Hex(Fingerprint(text)), ")");
  return absl::StrCat(text.substr(0, max_bytes - end.size()), end);
}

}  // namespace tutti
