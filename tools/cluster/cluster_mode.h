#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remote/transport_registry.h"
#include "tools/base/console.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/party.h"
#include "tutti/environment.h"
#include "tutti/selection.h"

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

// Number of ranks of all tasks together.
int NumRanks(const ClusterOptions& cluster);

// TakeOwnCluster(), and the numbers of devices and tasks of such a cluster.
// Errors: also those of CheckOptionsOfCluster() for --devices and --tasks.
template <typename Options>
absl::Status TakeRanksOfCluster(const CLI::App& app, const ClusterWords& words,
                                Options* options) {
  absl::Status status = TakeOwnCluster(words, &options->cluster);
  if (!status.ok() || !options->cluster.has_value()) return status;
  options->devices = NumRanks(*options->cluster);
  options->tasks = options->cluster->cluster.num_tasks();
  return CheckOptionsOfCluster(app, options->cluster, {"--devices", "--tasks"});
}

// Errors: UsageError for an unknown transport; UNIMPLEMENTED for MPI if this
// tool was built without it.
absl::StatusOr<TransportRegistry::Entry> FindTransport(
    const TransportRegistry& registry, const ClusterOptions& options);

struct PartyOptions {
  // Nullopt: the party of this process alone.
  std::optional<ClusterOptions> cluster;

  // Command that all tasks must run, as SharedCommand() returns it.
  std::string command;

  std::shared_ptr<const SelectionRules> rules;  // May be null.
  DeviceMaker make_devices;                     // Null: CPU devices.
};

// Makes the party of this process alone, or that of a cluster. In a cluster the
// tasks join when the party is made, and compare their commands; now and then a
// line on `console` names the tasks still awaited. The parts of `environment`
// and `console` outlive the factory and its party. Errors of making the party:
// those of ClusterRuntime; INVALID_ARGUMENT, on all tasks, for different
// commands or numbers of devices; FAILED_PRECONDITION if MPI and mpirun's
// variables disagree about this process's rank or the number of processes;
// UsageError if the cluster has another number of ranks.
PartyFactory PartyOf(const Environment& environment, PartyOptions options,
                     const Console& console);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_
