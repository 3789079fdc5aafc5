#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_OPTIONS_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_OPTIONS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/base/environment_variables.h"
#include "tutti/cluster_runtime.h"

namespace tutti {

// Raw cluster settings of one source (command line or file): values by option
// name, such as "start-timeout".
using ClusterWords = std::map<std::string, std::string>;

// Variable with the descriptors of sockets that listen for a worker, "5,6",
// which it inherits: `tutti launch` opens them before any worker runs.
inline constexpr char kListenersVariable[] = "TUTTI_LISTENERS";

// Transport of processes that mpirun started.
inline constexpr char kMpiTransport[] = "MPI";

// Members of a cluster, the task of this process, and the network between them.
struct ClusterOptions {
  ClusterSpec cluster;

  // Name in the TransportRegistry. MPI if mpirun started the processes:
  // `cluster` then holds only their number, and listening, tokens and TLS have
  // no meaning.
  std::string transport = "gRPC";

  // "host:port" to listen at, with this task's port.
  std::string listen_address;

  // Descriptors of inherited sockets that listen there already; empty: none.
  std::vector<int> listeners;

  int devices_per_task = 1;
  absl::Duration start_timeout = DefaultTime("start");

  // HealthProfile::Fast() instead of Default().
  bool fast_detection = false;

  // Secret that all tasks share; empty: none.
  std::string token;

  // `tls` is enabled or `insecure` set if an address is not a loopback address.
  TlsOptions tls;
  bool insecure = false;
};

// Takes each setting from the first source that has it: `flags`; the file that
// --cluster-file or TUTTI_CLUSTER_FILE names; variables named TUTTI_, such as
// TUTTI_START_TIMEOUT; for the cluster and the task, the variables of Open
// MPI's mpirun, then Slurm's. "{task}" in the path of a TLS file stands for the
// number of the task.
//
// Errors: UsageError naming the option, key or variable, its value and the
// wanted form; the error of a file that cannot be read.
absl::StatusOr<ClusterOptions> ResolveClusterOptions(
    const ClusterWords& flags, const Variables& variables);

// Whether mpirun has started this process.
bool IsStartedByMpirun(const Variables& variables);

// Errors: UsageError if this process and others were started by the mpirun of
// an MPI that is not Open MPI: each of them would run alone.
absl::Status CheckNotStartedByHydra(const Variables& variables);

// Whether only this machine can reach `host`: "localhost", "127.0.0.1",
// "[::1]".
bool IsLoopback(absl::string_view host);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_OPTIONS_H_
