#ifndef TUTTI_TOOLS_BASE_USAGE_MESSAGE_H_
#define TUTTI_TOOLS_BASE_USAGE_MESSAGE_H_

#include <string>

#include "CLI/CLI.hpp"

namespace tutti {

// Explains why `app` refused a command line: the words found and the words
// wanted. `app` is the whole program, in the state that parse() left it in when
// it threw `error`. Its sub-commands are the tool's commands.
std::string UsageMessage(const CLI::ParseError& error, const CLI::App& app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_USAGE_MESSAGE_H_
