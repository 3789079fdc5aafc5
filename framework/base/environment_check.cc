#include "framework/base/environment_check.h"

namespace tutti {

absl::Status Validate(const Environment& environment) {
  if (environment.queue != nullptr && environment.clock != nullptr &&
      environment.random != nullptr) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "the environment lacks a work queue, a clock or a random source");
}

}  // namespace tutti
