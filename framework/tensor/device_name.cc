#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tutti/device.h"

namespace tutti {
namespace {

bool ConsumeNumber(absl::string_view text, int* number) {
  return absl::SimpleAtoi(text, number) && *number >= 0;
}

bool ParseInto(absl::string_view full_name, DeviceName* name) {
  if (!absl::ConsumePrefix(&full_name, "/job:")) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(full_name, '/');
  if (parts.size() != 4 || parts[0].empty()) return false;
  absl::string_view replica = parts[1];
  absl::string_view task = parts[2];
  absl::string_view device = parts[3];
  if (!absl::ConsumePrefix(&replica, "replica:") ||
      !absl::ConsumePrefix(&task, "task:") ||
      !absl::ConsumePrefix(&device, "device:")) {
    return false;
  }
  const std::vector<absl::string_view> type_and_index =
      absl::StrSplit(device, ':');
  if (type_and_index.size() != 2 || type_and_index[0].empty()) return false;
  name->job = std::string(parts[0]);
  name->type = std::string(type_and_index[0]);
  return ConsumeNumber(replica, &name->replica) &&
         ConsumeNumber(task, &name->task) &&
         ConsumeNumber(type_and_index[1], &name->index);
}

}  // namespace

absl::StatusOr<DeviceName> DeviceName::Parse(absl::string_view full_name) {
  DeviceName name;
  if (ParseInto(full_name, &name)) return name;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", full_name, "\" is not a device name; wanted the form ",
                   "/job:worker/replica:0/task:3/device:CPU:1"));
}

std::string DeviceName::TaskName() const {
  return absl::StrCat("/job:", job, "/replica:", replica, "/task:", task);
}

std::string DeviceName::ToString() const {
  return absl::StrCat(TaskName(), "/device:", type, ":", index);
}

}  // namespace tutti
