#include "schedule/find_part.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindPart(
    absl::string_view name) {
  auto factory = CollectiveRegistry::Global().Find(name);
  if (factory.ok()) return factory;
  return absl::NotFoundError(
      absl::StrCat("no implementation is named \"", name, "\""));
}

}  // namespace tutti
