#ifndef TUTTI_TOOLS_COMMANDS_TOOL_H_
#define TUTTI_TOOLS_COMMANDS_TOOL_H_

#include "tools/base/console.h"

namespace tutti {

// Runs the `tutti` program. Returns its exit status: 0 for success; 1 for a
// failed run; 2 for a wrong command line; for `launch`, the exit status of the
// task that failed. Errors take one line on `console.err`. Throws nothing.
int RunTool(int argc, const char* const* argv, const Console& console);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_TOOL_H_
