#ifndef TUTTI_TOOLS_INFO_COMMAND_H_
#define TUTTI_TOOLS_INFO_COMMAND_H_

#include "tools/command.h"

namespace tutti {

// `tutti info`: the build, the machine and the registered algorithms.
Command AddInfoCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_INFO_COMMAND_H_
