#ifndef TUTTI_TOOLS_COMMANDS_WHY_NOT_HERE_H_
#define TUTTI_TOOLS_COMMANDS_WHY_NOT_HERE_H_

#include <string>

#include "tools/commands/info.h"
#include "tutti/implementation.h"

namespace tutti {

// Returns the reason why this process cannot run the implementation on any
// group of this machine's devices: a missing part, GPU, library or mpirun.
// Empty if none of these is missing. Pure.
std::string WhyNotHere(const ImplementationTraits& traits,
                       const BuildInfo& build);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_WHY_NOT_HERE_H_
