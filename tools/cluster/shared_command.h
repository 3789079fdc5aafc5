#ifndef TUTTI_TOOLS_CLUSTER_SHARED_COMMAND_H_
#define TUTTI_TOOLS_CLUSTER_SHARED_COMMAND_H_

#include <string>

#include "CLI/CLI.hpp"

namespace tutti {

// The part of the parsed `command` that all tasks of a cluster must share:
// "perf all_reduce --iterations 5 --check". Options stand in the order of their
// definition, not of the command line. Omits options that may differ: cluster
// members, names of files, and the format of the output. Options that are not
// given are omitted too, so an option given with its default value makes a
// difference. REQUIRES: flags take no values ("--check=false"), which are not
// included.
std::string SharedCommand(const CLI::App& command);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_SHARED_COMMAND_H_
