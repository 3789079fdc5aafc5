#ifndef TUTTI_TOOLS_COMMANDS_TOOL_H_
#define TUTTI_TOOLS_COMMANDS_TOOL_H_

#include "tools/base/console.h"

namespace tutti {

// The `tutti` program. Returns its exit status: 0; 1 if what was asked for
// failed; 2 for a command line that says nothing to do or nothing possible;
// that of a task that failed, of `launch`. Errors take one line on
// `console.err`. Throws nothing.
int RunTool(int argc, const char* const* argv, const Console& console);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_TOOL_H_
