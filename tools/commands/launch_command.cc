#include "tools/commands/launch_command.h"

#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/connection/loopback_listeners.h"
#include "tools/base/command_line.h"
#include "tools/base/environment_variables.h"
#include "tools/base/exit_status.h"
#include "tools/base/file_descriptors.h"
#include "tools/base/on_interrupt.h"
#include "tools/cluster/cluster_mode.h"
#include "tools/launch/launch_output.h"
#include "tools/launch/process_group.h"

namespace tutti {
namespace {

constexpr char kLaunchHelp[] =
    R"(Starts N processes of this tool on this machine, each a `tutti worker` with
COMMAND, perf, run or tune, and its arguments. They listen at free ports of
127.0.0.1 and know each other by a random token in their environment.

What task 0 writes to standard output passes as it is: results are printed
there alone. All other lines begin with the task, "[2] ".

When a task fails, or what they print cannot be written, the others are stopped
with SIGTERM, and with SIGKILL if they have not ended when the --grace period is
over; what nobody has read by then is lost. The first error is repeated last.
The exit status is that of the first task that failed; 128 and the number of the
signal if one killed it. Ctrl-C and SIGTERM go to all tasks (not SIGINT to a
command that a script started with "&": the shell has it ignored there); no task
is left behind, not even if this process is killed.

Examples:
  tutti launch --tasks 4 --devices-per-task 2 -- perf all_reduce --check
  tutti launch --tasks 2 -- run all_reduce --input 'grads/rank*.npy' \
      --output out/
  tutti certs --tasks 2 --out tls
  tutti launch --tasks 2 --tls-cert tls/task-{task}.pem \
      --tls-key tls/task-{task}.key --tls-ca tls/ca.pem -- perf all_gather)";

// With more tasks a machine runs out of file descriptors.
constexpr int kMaxLaunchedTasks = 1024;

// 128 random bits.
absl::StatusOr<std::string> RandomToken() {
  std::array<char, 16> bytes;
  if (getrandom(bytes.data(), bytes.size(), /*flags=*/0) !=
      static_cast<ssize_t>(bytes.size())) {
    return absl::ErrnoToStatus(errno, "the system gives no random numbers");
  }
  return absl::BytesToHexString({bytes.data(), bytes.size()});
}

// Variables of this process that describe another cluster; tasks must not see
// them.
constexpr std::array kForeignVariables = {"TUTTI_CLUSTER_FILE", "TUTTI_BIND",
                                          "TUTTI_PORT"};

// Checks the options that all tasks get, so that a mistake is reported once,
// before any task starts.
absl::Status CheckCluster(const LaunchOptions& options) {
  std::vector<std::string> addresses;
  for (int port = 1; port <= options.tasks; ++port) {
    addresses.push_back(absl::StrCat("127.0.0.1:", port));
  }
  ClusterWords words = options.cluster;
  words["cluster"] = absl::StrJoin(addresses, ",");
  words["task"] = "0";
  return ResolveClusterOptions(
             words,
             [](const std::string& name) -> std::optional<std::string> {
               if (absl::c_linear_search(kForeignVariables, name)) {
                 return std::nullopt;
               }
               return EnvironmentVariable(name);
             })
      .status();
}

// Data that differs between two launches with the same options.
struct Cluster {
  std::string addresses;
  std::string token;
  std::vector<LoopbackListeners> listeners;  // By task, which inherits them.
};

Program TaskProgram(const LaunchOptions& options, const std::string& program,
                    const Cluster& cluster, int task) {
  std::vector<std::string> words = {program,     "worker",
                                    "--cluster", cluster.addresses,
                                    "--task",    absl::StrCat(task)};
  for (const auto& [name, value] : options.cluster) {
    words.push_back(absl::StrCat("--", name));
    words.push_back(value);
  }
  words.emplace_back("--");
  words.insert(words.end(), options.words.begin(), options.words.end());
  const std::vector<int> listeners = cluster.listeners[task].descriptors();
  // Passes the token in the environment: every user of the machine can see
  // arguments.
  std::vector<std::string> environment = {
      absl::StrCat("TUTTI_TOKEN=", cluster.token),
      absl::StrCat(kListenersVariable, "=", absl::StrJoin(listeners, ","))};
  for (const char* name : kForeignVariables) {
    environment.push_back(absl::StrCat(name, "="));
  }
  return {.words = std::move(words),
          .environment = std::move(environment),
          .descriptors = listeners};
}

bool HaveFailed(const std::vector<OutputQueue*>& queues) {
  return absl::c_any_of(
      queues, [](const OutputQueue* queue) { return queue->failed(); });
}

absl::StatusOr<std::unique_ptr<ProcessGroup>> StartTasks(
    const LaunchOptions& options, const std::string& program,
    LaunchOutput* output, std::vector<OutputQueue*> queues) {
  RETURN_IF_ERROR(AllowFileDescriptors(options.tasks));
  Cluster cluster;
  ASSIGN_OR_RETURN(cluster.token, RandomToken());
  for (int task = 0; task < options.tasks; ++task) {
    ASSIGN_OR_RETURN(auto opened, LoopbackListeners::Open());
    absl::StrAppend(&cluster.addresses, task == 0 ? "" : ",", opened.address);
    cluster.listeners.push_back(std::move(opened));
  }
  std::vector<Program> programs;
  for (int task = 0; task < options.tasks; ++task) {
    programs.push_back(TaskProgram(options, program, cluster, task));
  }
  return ProcessGroup::Start(
      programs, {.grace = options.grace,
                 .on_output =
                     [output](int task, ProcessGroup::Stream stream,
                              absl::string_view piece) {
                       output->Add(task, stream, piece);
                     },
                 .may_go_on =
                     [output, queues] {
                       return output->may_go_on() && !HaveFailed(queues);
                     },
                 .queues = queues});
}

absl::Status ErrorOf(const ProcessGroup::Result& result,
                     const LaunchOutput& output) {
  if (!result.first_failed.has_value()) return absl::OkStatus();
  const int task = *result.first_failed;
  const int wait_status = result.wait_statuses[task];
  std::string what;
  int exit_status = WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    exit_status = 128 + signal;
    what = absl::StrCat("was killed by signal ", signal, " (",
                        strsignal(signal), ")");
  } else {
    what = absl::StrCat("failed with exit status ", exit_status);
  }
  const std::string& error = output.ErrorOf(task);
  return ErrorWithExitStatus(
      exit_status,
      absl::StrCat("task ", task, " ", what, error.empty() ? "" : ": ", error));
}

// Path of the program that this process runs.
absl::StatusOr<std::string> ThisProgram() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return path.string();
  return absl::ErrnoToStatus(error.value(), "/proc/self/exe cannot be read");
}

absl::Status CheckAndLaunch(const LaunchOptions& options,
                            const CheckTaskWords& check,
                            const Console& console) {
  bool printed_help = false;
  absl::Status status = check(options.words, console, &printed_help);
  if (status.ok() && !printed_help) status = CheckCluster(options);
  if (!status.ok() || printed_help) return status;
  ASSIGN_OR_RETURN(const auto program, ThisProgram());
  return Launch(options, program, console);
}

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
unless the variable TUTTI_TOKEN is the same in all of them (or set in none: then
every user of their machines can act as a task).

Examples:
  tutti worker --cluster localhost:7000,localhost:7001 --task 0 -- \
      perf all_reduce --check
  tutti worker --cluster-file cluster.json --task 1 -- \
      run all_reduce --input 'grads/rank*.npy' --output out/)";

}  // namespace

absl::Status Launch(const LaunchOptions& options, const std::string& program,
                    const Console& console) {
  OutputQueue out(STDOUT_FILENO);
  OutputQueue err(STDERR_FILENO);
  std::ostream queued_out(&out);
  std::ostream queued_err(&err);
  // Other streams, used by tests, never block.
  const bool is_queued = console.out.rdbuf() == std::cout.rdbuf() &&
                         console.err.rdbuf() == std::cerr.rdbuf();
  LaunchOutput output(is_queued ? Console{queued_out, queued_err} : console,
                      options.tasks);
  ASSIGN_OR_RETURN(auto group,
                   StartTasks(options, program, &output, {&out, &err}));
  const ProcessGroup::Result result = group->Wait();
  group.reset();  // Restores this process's signals.
  output.Finish();
  err.WriteAll();
  if (result.signal.has_value()) EndBySignal(*result.signal);
  if (!result.first_failed.has_value() &&
      (!output.may_go_on() || HaveFailed({&out, &err}))) {
    return OutputLostError();
  }
  return ErrorOf(result, output);
}

Command AddLaunchCommand(CLI::App* app, CheckTaskWords check) {
  auto options = std::make_shared<LaunchOptions>();
  auto rest = std::make_shared<std::vector<std::string>>();
  CLI::App* launch = app->add_subcommand(
      "launch", "Runs a command in several processes on this machine.");
  launch->footer(kLaunchHelp);
  launch->add_option("--tasks", options->tasks, "how many processes")
      ->required()
      ->transform(WholeNumber(1, kMaxLaunchedTasks))
      ->option_text("N");
  launch
      ->add_option_function<double>(
          "--grace",
          [options](double seconds) {
            options->grace = absl::Seconds(seconds);
          },
          HelpOf(RowOfTime("grace")))
      ->check(PositiveSeconds())
      ->option_text("SECONDS");
  AddTaskOptions(launch, &options->cluster);
  return {
      .app = launch,
      .run =
          [options, rest, check = std::move(check)](const Console& console) {
            options->words = *rest;
            return CheckAndLaunch(*options, check, console);
          },
      .rest = rest};
}

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
