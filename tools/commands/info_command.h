#ifndef TUTTI_TOOLS_COMMANDS_INFO_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_INFO_COMMAND_H_

#include "tools/cluster/command.h"

namespace tutti {

// `tutti info`: shows the build, the machine and the registered algorithms.
Command AddInfoCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_INFO_COMMAND_H_
