#ifndef TUTTI_TOOLS_BASE_ENVIRONMENT_VARIABLES_H_
#define TUTTI_TOOLS_BASE_ENVIRONMENT_VARIABLES_H_

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace tutti {

// Returns the value of an environment variable, or nullopt if it is unset or
// empty: shells expand an unset variable to an empty string.
using Variables =
    std::function<std::optional<std::string>(const std::string& name)>;

// Reads the environment of this process.
inline std::optional<std::string> EnvironmentVariable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_ENVIRONMENT_VARIABLES_H_
