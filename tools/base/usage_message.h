#ifndef TUTTI_TOOLS_BASE_USAGE_MESSAGE_H_
#define TUTTI_TOOLS_BASE_USAGE_MESSAGE_H_

#include <string>

#include "CLI/CLI.hpp"

namespace tutti {

// Why `app` refused a command line: what was found and what was wanted. `app`
// is the whole program, whose sub-commands are the tool's commands, as its
// parse() that threw `error` left it.
std::string UsageMessage(const CLI::ParseError& error, const CLI::App& app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_USAGE_MESSAGE_H_
