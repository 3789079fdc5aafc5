#include "bench/gpu/check.h"

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status During(const std::string& when, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(when, ": ", status.message()));
}

}  // namespace tutti
