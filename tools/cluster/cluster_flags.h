#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_FLAGS_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_FLAGS_H_

#include <initializer_list>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/cluster_words.h"

namespace tutti {

// The group of these options in the help.
inline constexpr char kClusterGroup[] = "Cluster";

// Options that fill `words`, which outlives the parsing, for
// ResolveClusterOptions().

// How the tasks of a cluster work, whichever they are.
void AddTaskOptions(CLI::App* app, ClusterWords* words);

// Those, and who takes part.
void AddClusterOptions(CLI::App* app, ClusterWords* words);

// For a command that takes part in a cluster if it is told to: by `words`, its
// own options; by mpirun, which has started it; or before, when `*cluster` is
// set. Errors: those of ResolveClusterOptions(); where nothing tells it to,
// that of CheckNotStartedByHydra(); UsageError for both.
absl::Status TakeOwnCluster(const ClusterWords& words,
                            std::optional<ClusterOptions>* cluster);

// Where there is a cluster, it says how many devices and tasks there are.
// Errors: UsageError if one of `options` was given with it.
absl::Status CheckOptionsOfCluster(const CLI::App& app,
                                   const std::optional<ClusterOptions>& cluster,
                                   std::initializer_list<const char*> options);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_FLAGS_H_
