#ifndef TUTTI_TOOLS_CLUSTER_SHARED_COMMAND_H_
#define TUTTI_TOOLS_CLUSTER_SHARED_COMMAND_H_

#include <string>

#include "CLI/CLI.hpp"

namespace tutti {

// What the tasks of a cluster must have in common of the parsed `command`:
// "perf all_reduce --iterations 5 --check", in the order in which the command
// defines its options, not that of the line. Without what may differ: who takes
// part, names of files, and how the result is printed. Options that are not
// given are left out, so that one given with its default differs. Flags take no
// values ("--check=false"), which it would not see.
std::string SharedCommand(const CLI::App& command);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_SHARED_COMMAND_H_
