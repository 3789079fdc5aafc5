#include "framework/executor/table_member.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

std::string Describe(InstanceId id) {
  return absl::StrCat("group ", id.group_key, ", instance ", id.instance_key);
}

}  // namespace

absl::Status TableMember::CheckNumber(const Device* device, InstanceId id,
                                      std::optional<uint64_t> number) {
  if (number.value_or(0) < kPreparations) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      device->full_name(), " called ", Describe(id), " by execution number ",
      *number, ", wanted less than ", kPreparations));
}

absl::StatusOr<uint64_t> TableMember::ChooseNumber(
    std::optional<uint64_t> number) {
  if (num_calls > 0 && gives_numbers != number.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        device->full_name(), " called ", Describe(id),
        number.has_value() ? " by execution number now, but not before"
                           : " by execution number before, but not now"));
  }
  if (!number.has_value()) return num_calls;
  if (numbers.Contains(*number)) {
    return absl::AlreadyExistsError(
        absl::StrCat(device->full_name(), " is already in execution ", *number,
                     " of ", Describe(id)));
  }
  gives_numbers = true;
  numbers.Insert(*number);
  next_number = *number + 1;
  return *number;
}

}  // namespace tutti
