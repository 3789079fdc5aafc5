#include "tools/base/exit_status.h"

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

constexpr absl::string_view kUsagePayload = "tutti/usage";
constexpr absl::string_view kExitStatusPayload = "tutti/exit_status";

}  // namespace

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

bool IsUsageError(const absl::Status& status) {
  return status.GetPayload(kUsagePayload).has_value();
}

absl::Status ErrorWithExitStatus(int exit_status, absl::string_view message) {
  absl::Status status = absl::UnknownError(message);
  status.SetPayload(kExitStatusPayload, absl::Cord(absl::StrCat(exit_status)));
  return status;
}

int ExitStatus(const absl::Status& status) {
  if (status.ok()) return 0;
  if (IsUsageError(status)) return 2;
  const auto payload = status.GetPayload(kExitStatusPayload);
  int exit_status = 1;
  if (payload.has_value() &&
      !absl::SimpleAtoi(std::string(*payload), &exit_status)) {
    return 1;
  }
  return exit_status;
}

std::string ErrorLine(const absl::Status& status) {
  std::string line = absl::StrCat("tutti: ", status.message());
  for (char& c : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace tutti
