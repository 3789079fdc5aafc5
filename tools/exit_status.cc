#include "tools/exit_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

constexpr absl::string_view kUsagePayload = "tutti/usage";

bool IsControl(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7F;
}

}  // namespace

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

int ExitStatus(const absl::Status& status) {
  if (status.ok()) return 0;
  return status.GetPayload(kUsagePayload).has_value() ? 2 : 1;
}

std::string ErrorLine(const absl::Status& status) {
  std::string line = absl::StrCat("tutti: ", status.message());
  for (char& c : line) {
    if (IsControl(c)) c = ' ';
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace tutti
