#include "tools/commands/worker_command.h"

#include <memory>
#include <utility>

#include "framework/base/status_macros.h"
#include "tools/base/environment_variables.h"
#include "tools/cluster/cluster_flags.h"
#include "tools/cluster/cluster_words.h"

namespace tutti {
namespace {

constexpr char kWorkerHelp[] =
    R"(A worker is one process of a cluster: it runs a command of this tool, perf, run
or tune, together with the other tasks. Start one for each task, with the same
command; task 0 prints the result. (On one machine, `tutti launch` does that.)

Every setting is taken from the first of these that has it:
  the options above
  the file of --cluster-file
  variables: TUTTI_CLUSTER, TUTTI_TASK, TUTTI_START_TIMEOUT, ..., one for each
    option; TUTTI_INSECURE=1 for --insecure
  Slurm's variables, for who takes part and which task this is

The file is JSON. All keys but "tasks" are those of the options, with _ for -;
--task has none, so that all tasks can use the same file:
  {"tasks": ["host1:7000", "host2:7000"], "devices_per_task": 2,
   "tls_cert": "certs/task-{task}.pem", "tls_key": "certs/task-{task}.key",
   "tls_ca": "certs/ca.pem"}

Under Slurm, srun starts the tasks. Those of a node listen at consecutive
ports, from --port on:
  srun --ntasks-per-node=4 tutti worker --insecure -- perf all_reduce

Security: without TLS, only addresses of this machine (localhost, 127.0.0.1,
[::1]) are allowed, unless --insecure says that everybody on the network may
read and change all data. With TLS, each task has a certificate for its name,
task-0, task-1, ...; `tutti certs` makes a set. The tasks refuse each other
unless the variable TUTTI_TOKEN is the same in all of them (or set in none).

Examples:
  tutti worker --cluster localhost:7000,localhost:7001 --task 0 -- \
      perf all_reduce --check
  tutti worker --cluster-file cluster.json --task 1 -- \
      run all_reduce --input 'grads/rank*.npy' --output out/)";

}  // namespace

Command AddWorkerCommand(CLI::App* app, RunAsTask run_as_task) {
  auto words = std::make_shared<ClusterWords>();
  auto rest = std::make_shared<std::vector<std::string>>();
  CLI::App* worker = app->add_subcommand(
      "worker", "Runs a command as one task of a cluster of processes.");
  worker->footer(kWorkerHelp);
  AddClusterOptions(worker, words.get());
  return {.app = worker,
          .run =
              [words, rest,
               run_as_task = std::move(run_as_task)](const Console& console) {
                ASSIGN_OR_RETURN(
                    const auto cluster,
                    ResolveClusterOptions(*words, EnvironmentVariable));
                return run_as_task(*rest, cluster, console);
              },
          .rest = rest};
}

}  // namespace tutti
