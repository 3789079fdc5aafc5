#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_OPTIONS_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/base/environment_variables.h"
#include "tools/cluster/cluster_words.h"
#include "tutti/cluster_runtime.h"

namespace tutti {

// Files in PEM format.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string ca;
};

// Who takes part, which of them this process is, and how they talk.
struct ClusterOptions {
  ClusterSpec cluster;

  // mpirun has started the processes, and they talk through MPI, which knows
  // where they are: `cluster` has their number alone, and what is said of
  // listening, tokens and TLS is of no meaning.
  bool uses_mpi = false;

  // "host:port" to listen at, with the port of this task.
  std::string listen_address;

  int devices_per_task = 1;
  absl::Duration start_timeout = absl::Seconds(60);

  // A silent task is lost after 0.9 s, not 4.8 s.
  bool fast_detection = false;

  // What all tasks must know of each other; empty: nothing.
  std::string token;

  // One of them is set where not all addresses are of the loopback device.
  std::optional<TlsFiles> tls;
  bool insecure = false;
};

// Each setting is taken from the first that has it: `flags`; the file that
// --cluster-file or TUTTI_CLUSTER_FILE names; variables named TUTTI_, such as
// TUTTI_START_TIMEOUT; for the cluster and the task, those of Open MPI's
// mpirun, then those of Slurm. "{task}" in the path of a file of TLS stands for
// the number of the task.
//
// Errors: UsageError naming the option, the key or the variable, its value and
// what is wanted; a file that cannot be read.
absl::StatusOr<ClusterOptions> ResolveClusterOptions(
    const ClusterWords& flags, const Variables& variables);

// Whether mpirun has started this process.
bool IsStartedByMpirun(const Variables& variables);

// Errors: UsageError if the mpirun of an MPI that is not Open MPI has started
// this process and others, which would each be alone.
absl::Status CheckNotStartedByHydra(const Variables& variables);

// Only this machine can reach it: "localhost", "127.0.0.1", "[::1]".
bool IsLoopback(absl::string_view host);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_OPTIONS_H_
