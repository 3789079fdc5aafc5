#ifndef TUTTI_TOOLS_BASE_ENVIRONMENT_VARIABLES_H_
#define TUTTI_TOOLS_BASE_ENVIRONMENT_VARIABLES_H_

#include <functional>
#include <optional>
#include <string>

namespace tutti {

// The value of an environment variable; none if it is not set, or empty, which
// is what a shell makes of an unset one.
using Variables =
    std::function<std::optional<std::string>(const std::string& name)>;

// Of this process.
std::optional<std::string> EnvironmentVariable(const std::string& name);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_ENVIRONMENT_VARIABLES_H_
