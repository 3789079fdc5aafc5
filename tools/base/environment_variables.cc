#include "tools/base/environment_variables.h"

#include <cstdlib>

namespace tutti {

std::optional<std::string> EnvironmentVariable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace tutti
