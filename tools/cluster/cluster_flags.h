#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_FLAGS_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_FLAGS_H_

#include <initializer_list>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/cluster/cluster_options.h"

namespace tutti {

// Heading of these options in the help.
inline constexpr char kClusterGroup[] = "Cluster";

// Add options that fill `words`, for ResolveClusterOptions(). `words` must
// outlive the parsing.

// Adds options that do not depend on the members of the cluster.
void AddTaskOptions(CLI::App* app, ClusterWords* words);

// Adds the task options, and the options that name the members of the cluster.
void AddClusterOptions(CLI::App* app, ClusterWords* words);

// For a command that may take part in a cluster. Three sources can request it:
// `words`, the command's own options; mpirun, which started the process; or
// `*cluster`, set before the call. Errors: those of ResolveClusterOptions();
// without a request, that of CheckNotStartedByHydra(); UsageError if both
// `words` and `*cluster` request a cluster.
absl::Status TakeOwnCluster(const ClusterWords& words,
                            std::optional<ClusterOptions>* cluster);

// Checks that none of `options` was given together with a cluster, which
// determines the number of devices and tasks. Errors: UsageError.
absl::Status CheckOptionsOfCluster(const CLI::App& app,
                                   const std::optional<ClusterOptions>& cluster,
                                   std::initializer_list<const char*> options);

// The part of the parsed `command` that all tasks of a cluster must share:
// "perf all_reduce --iterations 5 --check". Options stand in the order of their
// definition, not of the command line. Omits options that may differ: cluster
// members, names of files, and the format of the output. Options that are not
// given are omitted too, so an option given with its default value makes a
// difference. REQUIRES: flags take no values ("--check=false"), which are not
// included.
std::string SharedCommand(const CLI::App& command);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_FLAGS_H_
