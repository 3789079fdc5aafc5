#include "framework/choice/parts.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tutti {

std::string WhyNotOfParts(const ImplementationTraits& traits) {
  const absl::Status status = CheckParts(traits);
  if (status.ok()) return "";
  return absl::StrCat("cannot be made of its parts: ", status.message());
}

}  // namespace tutti
